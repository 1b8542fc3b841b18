package grouping

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// noUnit is the unit of an object without replicas.
const noUnit = ""

// saidSize is the size of a replica according to one of its pods.
type saidSize struct {
	replicas int64
	// created is the creation time of the pod.
	created metav1.Time
}

// unitOf returns the replica that the pod belongs to. In this package, a unit is a replica of an
// object.
func (o *object) unitOf(pod *corev1.Pod) string {
	if o.rule.UnitLabel == "" {
		return noUnit
	}
	return pod.Labels[o.rule.UnitLabel]
}

// planOf returns the plan that applies to a replica.
func (o *object) planOf(unit string) *plan {
	if p, ok := o.kept[unit]; ok {
		return p
	}
	return o.plan
}

// noteOf returns the reason why a replica does not follow the object's current state. It is empty
// if the replica follows it.
func (o *object) noteOf(unit string) string {
	if _, ok := o.kept[unit]; !ok && len(o.kept) > 0 {
		return ""
	}
	return o.note
}

// sizes returns the sizes of a replica's roles. While an object is resized, the controller may
// still create replicas with the previous size. The size of such a replica comes from an annotation
// of its pods.
func (o *object) sizes(p *plan, unit string) []Size {
	said, ok := o.said[unit]
	if !ok {
		return p.reading.Roles
	}
	out := slices.Clone(p.reading.Roles)
	for i := range o.rule.Roles {
		role := &o.rule.Roles[i]
		for j := range out {
			if role.Said != (key{}) && out[j].Name == role.Name {
				out[j].Count = max(said.replicas+role.Plus, role.Floor)
			}
		}
	}
	return out
}

// said returns the size of a pod's replica according to a label or annotation of the pod. It
// returns false if the pod has none.
func (r *Rule) said(pod *corev1.Pod) (saidSize, bool) {
	for i := range r.Roles {
		if k := r.Roles[i].Said; k != (key{}) {
			n, err := strconv.ParseInt(k.of(pod), 10, 32)
			return saidSize{n, pod.CreationTimestamp}, err == nil && n > 0
		}
	}
	return saidSize{}, false
}

// hear records the size of a replica that a pod states, unless a younger pod has stated another
// size. If the size is new, hear reports the replica's groups as changed.
func (r *Resolver) hear(rule *Rule, pod *corev1.Pod, name string) {
	now, ok := rule.said(pod)
	if !ok || pod.DeletionTimestamp != nil {
		return
	}
	unit, named := pod.Labels[rule.UnitLabel], objectName{rule.Kind.GroupKind(), pod.Namespace, name}
	news := func() (*object, bool) {
		o, ok := r.bearer(named, pod)
		if !ok || o.rule == nil {
			return nil, false
		}
		before, known := o.said[unit]
		return o, !known || before.replicas != now.replicas && before.created.Before(&now.created)
	}
	r.mu.RLock()
	_, isNews := news()
	r.mu.RUnlock()
	if !isNews {
		return
	}
	var keys []types.NamespacedName
	r.mu.Lock()
	if o, isNews := news(); isNews {
		if o.said == nil {
			o.said = make(map[string]saidSize)
		}
		o.said[unit] = now
		for s, key := range o.names {
			if s.unit == unit {
				keys = append(keys, key)
			}
		}
	}
	r.mu.Unlock()
	for _, key := range keys {
		r.changed(key)
	}
}

// serves returns a function that reports whether a scheduler name is a profile of this process that
// groups pods of the kind.
func (r *Resolver) serves(kind schema.GroupKind) func(scheduler string) bool {
	return func(scheduler string) bool {
		settings, ok := r.profiles[scheduler]
		return ok && settings.has(kind)
	}
}
