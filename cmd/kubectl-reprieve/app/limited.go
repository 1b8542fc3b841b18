package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	schedulerapp "github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/escape"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// told is a message about some work, from a condition or an event.
type told struct {
	// Of is the kind and name of the object. If several pods have the same message, Of is the first
	// pod.
	Of string `json:"of"`
	// Pods is the number of pods that have the message in a condition; 0 for other messages.
	Pods int `json:"pods,omitempty"`
	// Type is the type of the condition; empty for an event.
	Type    string    `json:"type,omitempty"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since,omitzero"`
}

// text returns the message with its object and its reason.
func (t *told) text() string {
	of := t.Of
	if t.Pods > 1 {
		of = fmt.Sprintf("%s and %d more", of, t.Pods-1)
	}
	what := t.Reason
	if t.Type != "" && t.Type != t.Reason {
		what = t.Type + ", " + t.Reason
	}
	since := ""
	if !t.Since.IsZero() {
		since = ", since " + t.Since.Format(time.RFC3339)
	}
	return fmt.Sprintf("%s (%s%s): %s", of, what, since, escape.Line(t.Message))
}

func conditionTold(of string, c *metav1.Condition) told {
	return told{Of: of, Type: c.Type, Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.UTC()}
}

// gatherWhatMayBe reads the objects that a decision depends on. If the caller may not list
// cluster-scoped objects, such as nodes, it reads only objects of the namespace.
func (a *asking) gatherWhatMayBe(ctx context.Context, shown *progress, namespace string) (*question, error) {
	asked, err := a.gather(ctx, shown)
	var forbidden *inventory.ForbiddenError
	if !errors.As(err, &forbidden) || a.snapshot != "" {
		return asked, err
	}
	cfg, cfgErr := schedulerapp.LoadConfig(ctx, a.configuration)
	if cfgErr != nil {
		return nil, usage(cfgErr)
	}
	roots, rootsErr := derived.Roots(cfg)
	if rootsErr != nil {
		return nil, usage(rootsErr)
	}
	with, host, listErr := a.listing(roots)
	if listErr != nil {
		return nil, listErr
	}
	with.Namespace = namespace
	objects, unseen, listErr := inventory.ListNamespace(ctx, *with)
	var none *inventory.ForbiddenError
	switch {
	case errors.As(listErr, &none):
		// The caller may not list any objects of the namespace. Return the error about the whole
		// cluster.
		return nil, err
	case listErr != nil:
		return nil, a.reached(host, listErr)
	}
	groups, groupsErr := derived.New(objects, cfg)
	if groupsErr != nil {
		return nil, fmt.Errorf("find out which pods belong together: %w", groupsErr)
	}
	for _, resource := range forbidden.Resources {
		if !inventory.InNamespace(resource) {
			unseen = append(unseen, resource)
		}
	}
	slices.Sort(unseen)
	asked, err = newQuestion(objects, cfg, groups)
	if err != nil {
		return nil, err
	}
	asked.unseen, asked.namespace = slices.Compact(unseen), namespace
	return asked, nil
}

// blocked returns the conditions of the subject's PodGroups that block the work regardless of free
// room. These are FollowsObject, and PodGroupScheduled with the reason PriorityAbovePods.
func (s *subject) blocked() []told {
	var out []told
	for _, pg := range s.all {
		of := unitName(pg.Namespace, pg.Name, true)
		if c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionFollowsObject); c != nil && c.Status == metav1.ConditionFalse {
			out = append(out, conditionTold(of, c))
		}
		c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
		if c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonPriorityAbovePods {
			out = append(out, conditionTold(of, c))
		}
	}
	return out
}

// mostEvents is the maximum number of events in an answer.
const mostEvents = 5

// toldOf returns the messages about a subject: the conditions of its PodGroups, then the conditions
// of its pods, then warning events.
func (a *asking) toldOf(ctx context.Context, about *subject) ([]told, error) {
	out := about.blocked()
	for _, pg := range about.all {
		of := unitName(pg.Namespace, pg.Name, true)
		for i := range pg.Status.Conditions {
			c := &pg.Status.Conditions[i]
			bad := metav1.ConditionTrue
			switch c.Type {
			case v1alpha1.ConditionPodGroupScheduled:
				bad = metav1.ConditionFalse
			case v1alpha1.ConditionDisruptionTarget, v1alpha1.ConditionQueueOrphaned, v1alpha1.ConditionDegraded, v1alpha1.ConditionPodsNotMatchingPriority:
			default:
				continue
			}
			one := conditionTold(of, c)
			if c.Status == bad && !slices.ContainsFunc(out, func(t told) bool { return t.Of == one.Of && t.Type == one.Type }) {
				out = append(out, one)
			}
		}
	}
	out = append(out, about.toldPods()...)
	events, err := a.events(ctx, about.key.Namespace, "type="+corev1.EventTypeWarning)
	if err != nil {
		return out, err
	}
	slices.SortStableFunc(events, func(x, y eventsv1.Event) int { return cmp.Compare(timeOf(&y).Unix(), timeOf(&x).Unix()) })
	said := make(map[string]bool)
	for i := range events {
		e := &events[i]
		name := referenceName(&e.Regarding)
		repeated := slices.ContainsFunc(out, func(t told) bool { return t.Message == e.Note })
		if len(said) == mostEvents || repeated || said[e.Reason+e.Note] || !about.is(name) {
			continue
		}
		said[e.Reason+e.Note] = true
		out = append(out, told{Of: name, Reason: e.Reason, Message: e.Note, Since: timeOf(e)})
	}
	return out, nil
}

// toldPods returns the messages in the conditions PodScheduled of the subject's pending pods. Pods
// with the same message share an entry.
func (s *subject) toldPods() []told {
	var out []told
	for _, pod := range s.pending() {
		for _, c := range pod.Status.Conditions {
			if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
				continue
			}
			at := slices.IndexFunc(out, func(t told) bool { return t.Message == c.Message && t.Reason == c.Reason })
			if at >= 0 {
				out[at].Pods++
				continue
			}
			out = append(out, told{
				Of: unitName(pod.Namespace, pod.Name, false), Pods: 1, Type: string(c.Type), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.UTC(),
			})
		}
	}
	return out
}
