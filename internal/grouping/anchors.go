package grouping

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// AnchorsOf returns the pod's anchors, which are the keys of [Pods.Anchored]. An anchor names the
// pod's owner, or an object that the pod's labels or annotations name. AnchorsOf implements
// gang.Derived. Informers call it with their locks held, so it reads only data that never changes.
func (r *Resolver) AnchorsOf(pod *corev1.Pod) []string {
	settings, ok := r.profiles[pod.Spec.SchedulerName]
	if _, named := gang.GroupOf(pod); named || !ok {
		return nil
	}
	for _, rule := range settings.rules {
		if name := rule.nameIn(pod); name != "" {
			all := nameAnchor(rule, pod.Namespace, name)
			if rule.UnitLabel == "" {
				return []string{all}
			}
			return []string{all, unitAnchor(all, pod.Labels[rule.UnitLabel])}
		}
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && settings.follows(groupKindOf(owner)) {
		return []string{ownerAnchor(pod.Namespace, owner.UID)}
	}
	return nil
}

// Anchors returns the anchors of all pods that may belong to a group. It implements gang.Derived.
func (r *Resolver) Anchors(key types.NamespacedName) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, ok := r.groups[key]
	if !ok {
		return nil
	}
	o, ok := r.objects[m.root]
	if !ok {
		return nil
	}
	if o.rule.isNamed() && o.rule.UnitLabel != "" && !m.suffix.tree {
		return []string{unitAnchor(nameAnchor(o.rule, o.namespace, o.name), m.suffix.unit)}
	}
	return r.anchorsBelow(o)
}

// anchorsBelow returns the anchors of the pods that belong to an object, directly or through other
// objects. It terminates even if objects own each other in a cycle, because users may write such
// objects.
func (r *Resolver) anchorsBelow(o *object) []string {
	var out []string
	seen, next := sets.New(o.uid), []*object{o}
	for len(next) > 0 {
		o, next = next[0], next[1:]
		if o.rule != nil && o.rule.isNamed() {
			out = append(out, nameAnchor(o.rule, o.namespace, o.name))
			continue
		}
		out = append(out, ownerAnchor(o.namespace, o.uid))
		for uid := range r.children[o.uid] {
			if child, ok := r.objects[uid]; ok && child.namespace == o.namespace && !seen.Has(uid) {
				seen.Insert(uid)
				next = append(next, child)
			}
		}
	}
	return out
}

// podsBelow returns the pods that belong to an object, directly or through other objects.
func (r *Resolver) podsBelow(o *object) []*corev1.Pod {
	r.mu.RLock()
	anchors := r.anchorsBelow(o)
	r.mu.RUnlock()
	var out []*corev1.Pod
	for _, anchor := range anchors {
		out = append(out, r.pods.Anchored(anchor)...)
	}
	return out
}

// hasPods reports whether any pods belong to an object. If pods name the object by a label, it
// ignores pods that belong to a newer object with the same name.
func (r *Resolver) hasPods(o *object) bool {
	pods := r.podsBelow(o)
	if o.rule == nil || !o.rule.isNamed() {
		return len(pods) > 0
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		of, ok := r.bearer(o.objectName, pod)
		return ok && of == o
	})
}

// ownerAnchor returns the anchor of the pods that an owner controls. It includes the namespace: a
// reference to an owner in another namespace is invalid, but users may write one.
func ownerAnchor(namespace string, uid types.UID) string {
	return "owner " + namespace + "/" + string(uid)
}

func nameAnchor(rule *Rule, namespace, name string) string {
	return rule.Kind.GroupKind().String() + " " + namespace + "/" + name
}

func unitAnchor(all, unit string) string { return all + " " + unit }

// longestRoot is the maximum length of the object's name within a group's name, and hashLength is
// the length of the hash. API objects may have names of up to 253 characters.
const longestRoot, hashLength = 160, 8

// keyOf returns the key of a group of an object.
func keyOf(o *object, s suffix) types.NamespacedName {
	if s.tree {
		return gang.TreeKey(o.namespace, baseName(o))
	}
	return types.NamespacedName{Namespace: o.namespace, Name: groupName(o, s)}
}

// groupName returns the name of a group of an object. The name includes a hash, so that a later
// object with the same name has other group names.
func groupName(o *object, s suffix) string {
	name := baseName(o)
	for _, part := range [...]string{s.unit, s.role} {
		if part != "" {
			name += "-" + partName(part)
		}
	}
	if alike := s.unit != "" && s.role != "" && strings.Contains(s.unit+s.role, "-"); alike || len(name) > longestName {
		return baseName(o) + "-" + hashOf(s.unit+"/"+s.role)
	}
	return name
}

// longestName is the maximum length of the name of an object.
const longestName = 253

// others is the part of a group's name that stands for AnyName, which object names do not allow.
const others = "others"

// partName converts the name of a replica or role to characters that object names allow. If it must
// replace characters, it appends a hash, so that different inputs have different results.
func partName(part string) string {
	if part == AnyName {
		return others
	}
	if name := strings.Map(inNames, strings.ToLower(part)); name != part || part == others {
		return strings.Trim(name, "-") + "-" + hashOf(part)
	}
	return part
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashLength]
}

func baseName(o *object) string {
	return strings.TrimRight(o.name[:min(len(o.name), longestRoot)], "-.") + "-" + hashOf(string(o.uid))
}

// inNames replaces each character that labels allow and object names do not allow.
func inNames(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
		return c
	}
	return '-'
}
