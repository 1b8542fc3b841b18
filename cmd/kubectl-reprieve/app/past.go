package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/report"
)

// happening is a preemption that has begun. It comes from the scheduler's record of decisions, or
// from objects of the cluster. Workloads and pods have names such as "pod default/web".
type happening struct {
	Time time.Time `json:"time"`
	// Preemptor preempted Victim. Rule is the rule that permitted it.
	Preemptor string `json:"preemptor"`
	Victim    string `json:"victim"`
	Namespace string `json:"namespace"`
	Rule      string `json:"rule,omitempty"`
	Message   string `json:"message,omitempty"`
	// LostDeviceHours is the work that the victim lost; nil if it is not known. It does not include
	// the work that other members of the victim's gang lost.
	LostDeviceHours *float64 `json:"lostDeviceHours,omitempty"`
	// Source is the most trusted source of the preemption; see sourceRecord.
	Source string `json:"source"`

	// group is the PodGroup that was evicted as a whole, if the victim is one of its pods. memberOf
	// is the PodGroup of a pod that was evicted alone. Each is "" for other victims, and if it is
	// not known.
	group, memberOf string
	// recorded is true if the scheduler's record has the happening. Only then, queue is the
	// victim's leaf queue ("" for none), and pods has the evicted pods of the victim.
	recorded bool
	queue    string
	pods     []core.VictimPod
}

// queueAmong returns the victim's leaf queue; "" for none. It looks in the record, then in the
// message on the victim, then in the known workloads. If no source has the queue, it returns false.
func (h *happening) queueAmong(known map[string]report.Party) (string, bool) {
	if h.recorded {
		return h.queue, true
	}
	if told := core.QueueTold(h.Message); told != "" {
		return told, true
	}
	victim, ok := known[h.Victim]
	if !ok {
		victim, ok = known[cmp.Or(h.group, h.memberOf)]
	}
	return victim.Queue, ok
}

// reasonPreempted is the reason of the events that the scheduler writes about victims.
const reasonPreempted = "Preempted"

// preemptions returns the known preemptions, newest first. The sources are the records, the
// statuses of victims in the objects and, for a live cluster, events. An empty namespace selects
// all namespaces.
func (a *asking) preemptions(ctx context.Context, objects *inventory.Inventory, namespace string, records []decisionlog.Record) ([]happening, error) {
	out, err := byStatus(objects)
	if err != nil {
		return nil, err
	}
	if a.snapshot == "" {
		told, err := a.byEvents(ctx, namespace)
		if err != nil {
			return nil, err
		}
		out = append(out, told...)
	}
	out = append(out, byRecord(records)...)
	out = slices.DeleteFunc(out, func(h happening) bool { return namespace != "" && h.Namespace != namespace })
	slices.SortStableFunc(out, func(x, y happening) int {
		return cmp.Or(y.Time.Compare(x.Time), cmp.Compare(x.Victim, y.Victim), cmp.Compare(x.Source, y.Source))
	})
	return onceEach(out), nil
}

// onceEach merges happenings about the same preemption, which the record, the victim's condition
// and an event may all report. Happenings count as the same preemption if they have the same victim
// and preemptor, and are less than a minute apart. The time, rule and message of the most trusted
// source apply. If a PodGroup was evicted as a whole, onceEach removes the happenings of its pods.
// The exception is a happening whose source is more trusted than the source of the PodGroup's
// happening. The result is sorted, newest first.
func onceEach(all []happening) []happening {
	type same struct{ victim, preemptor string }
	told := make(map[same]int)
	for i := range all {
		key := same{all[i].Victim, all[i].Preemptor}
		told[key] = max(told[key], all[i].trust())
	}
	all = slices.DeleteFunc(all, func(h happening) bool { return h.group != "" && told[same{h.group, h.Preemptor}] >= h.trust() })
	type place struct {
		at int
		// newest is the time of the newest happening about this preemption.
		newest time.Time
	}
	last := make(map[same]place)
	var out []happening
	for _, h := range all {
		key := same{h.Victim, h.Preemptor}
		of, known := last[key]
		if !known || of.newest.Sub(h.Time) >= time.Minute {
			last[key] = place{len(out), h.Time}
			out = append(out, h)
			continue
		}
		out[of.at] = merged(out[of.at], h)
	}
	slices.SortStableFunc(out, func(x, y happening) int { return y.Time.Compare(x.Time) })
	return out
}

// merged returns one happening for two happenings about the same preemption. The happening of the
// more trusted source takes precedence.
func merged(one, other happening) happening {
	if other.trust() > one.trust() {
		one, other = other, one
	}
	one.Rule, one.Message = cmp.Or(one.Rule, other.Rule), cmp.Or(one.Message, other.Message)
	one.group, one.memberOf = cmp.Or(one.group, other.group), cmp.Or(one.memberOf, other.memberOf)
	if one.pods == nil {
		one.pods = other.pods
	}
	return one
}

// The sources of happenings, the most trusted first.
const (
	// sourceRecord is the scheduler's record of its decisions.
	sourceRecord = "record"
	// sourceStatus is the status of the victim. Only schedulers and nodes have the permission to
	// write it.
	sourceStatus = "status"
	// sourceEvent is an event. Everybody with the role edit in a namespace may write events there,
	// so an event may be forged.
	sourceEvent = "event"
)

// accordingToEvent marks an entry whose only source is a Kubernetes Event.
const accordingToEvent = "according to an event"

// trust returns the rank of the source of a happening. A more trusted source has a higher rank.
func (h *happening) trust() int {
	return slices.Index([]string{sourceEvent, sourceStatus, sourceRecord}, h.Source) + 1
}

// byStatus returns the preemptions in the statuses of PodGroups and in the conditions of pods.
func byStatus(objects *inventory.Inventory) ([]happening, error) {
	groups, err := ownGroups(objects)
	if err != nil {
		return nil, err
	}
	pods, err := inventory.Decode[*corev1.Pod](objects, inventory.Pods)
	if err != nil {
		return nil, err
	}
	var out []happening
	for _, pg := range groups {
		victim := groupName(keyOf(pg))
		if d := pg.Status.LastDisruption; d != nil {
			h := happening{Time: d.Time.UTC(), Preemptor: preemptorName(d.Preemptor), Victim: victim, Namespace: pg.Namespace, Rule: d.Rule, Source: sourceStatus}
			for _, name := range d.Pods {
				member := h
				member.Victim, member.memberOf = unitName(pg.Namespace, name, false), victim
				out = append(out, member)
			}
			if len(d.Pods) == 0 {
				out = append(out, h)
			}
		}
		if d := pg.Status.Disruption; d != nil {
			out = append(out, happening{
				Time: d.Time.UTC(), Preemptor: preemptorName(d.Preemptor), Victim: victim, Namespace: pg.Namespace, Rule: d.Rule, Message: d.Message, Source: sourceStatus,
			})
		}
	}
	for _, pod := range pods {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == v1alpha1.ReasonPreemptionByScheduler {
				out = append(out, happening{
					Time: c.LastTransitionTime.UTC(), Preemptor: preemptorIn(c.Message), Victim: "pod " + pod.Namespace + "/" + pod.Name, group: groupIn(c.Message),
					Namespace: pod.Namespace, Rule: ruleIn(c.Message), Message: c.Message, Source: sourceStatus,
				})
			}
		}
	}
	return out, nil
}

// preemptorIn returns the preemptor that the message on a victim names; "" for none.
func preemptorIn(message string) string {
	rest, told := strings.CutPrefix(message, "preempted by ")
	kind, rest, _ := strings.Cut(rest, " ")
	name, _, found := strings.Cut(rest, " (priority ")
	if !told || !found {
		return ""
	}
	return nameTold(kind, name)
}

func groupIn(message string) string {
	if kind, group := core.GroupTold(message); group != "" {
		return strings.ToLower(kind) + " " + group
	}
	return ""
}

// ruleIn returns the rule that the message on a victim names; "" for none.
func ruleIn(message string) string {
	_, rest, _ := strings.Cut(message, "): ")
	rule, _, found := strings.Cut(rest, ", the victim's priority is ")
	if !found || strings.ContainsAny(rule, " ,") {
		return ""
	}
	return rule
}

func preemptorName(p v1alpha1.DisruptionPreemptor) string {
	kind := "pod "
	switch p.Kind {
	case v1alpha1.PreemptorPodGroup:
		kind = "podgroup "
	case v1alpha1.PreemptorComposite:
		kind = "compositepodgroup "
	case v1alpha1.PreemptorPod:
	}
	return kind + types.NamespacedName{Namespace: p.Namespace, Name: p.Name}.String()
}

// byEvents returns the preemptions in events. The API server usually keeps events for an hour.
func (a *asking) byEvents(ctx context.Context, namespace string) ([]happening, error) {
	told, err := a.events(ctx, namespace, "reason="+reasonPreempted)
	if err != nil {
		return nil, err
	}
	out := make([]happening, 0, len(told))
	for i := range told {
		e := &told[i]
		h := happening{Time: timeOf(e), Victim: referenceName(&e.Regarding), group: groupIn(e.Note), Namespace: e.Regarding.Namespace, Rule: ruleIn(e.Note), Message: e.Note, Source: sourceEvent}
		if e.Related != nil {
			h.Preemptor = referenceName(e.Related)
		}
		out = append(out, h)
	}
	return out, nil
}

// events lists the events that match a field selector.
func (a *asking) events(ctx context.Context, namespace, selector string) ([]eventsv1.Event, error) {
	rest, err := a.kube.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	var out []eventsv1.Event
	options := metav1.ListOptions{Limit: 500, FieldSelector: selector}
	for {
		page, err := client.EventsV1().Events(namespace).List(ctx, options)
		if apierrors.IsForbidden(err) {
			where := "all namespaces"
			if namespace != "" {
				where = "namespace " + namespace
			}
			return nil, &codedError{exitForbidden, fmt.Errorf("you may not list events.events.k8s.io in %s, which report preemptions", where)}
		}
		if err != nil {
			return nil, fmt.Errorf("list events: %w", err)
		}
		out = append(out, page.Items...)
		if options.Continue = page.Continue; options.Continue == "" {
			return out, nil
		}
	}
}

func timeOf(e *eventsv1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.UTC()
	case !e.EventTime.IsZero():
		return e.EventTime.UTC()
	default:
		return e.CreationTimestamp.UTC()
	}
}

func referenceName(r *corev1.ObjectReference) string {
	kind := "pod "
	switch r.Kind {
	case kindPodGroup:
		kind = "podgroup "
	case kindComposite:
		kind = "compositepodgroup "
	}
	return kind + types.NamespacedName{Namespace: r.Namespace, Name: r.Name}.String()
}
