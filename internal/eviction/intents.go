package eviction

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// againWithin is the maximum time between two preemptions of a group that counts as preempted
// again.
const againWithin = time.Hour

// intents writes the intents to evict groups (status.disruption). Its client reads from the API
// server and not from a cache.
type intents struct {
	client client.Client
	clock  clock.PassiveClock
	// again is called for each group that is preempted for another preemptor within againWithin.
	again func()
}

func preemptorOf(d *core.Decision) v1alpha1.DisruptionPreemptor {
	kind := v1alpha1.PreemptorPod
	if d.Preemptor.Gang {
		kind = v1alpha1.PreemptorPodGroup
	}
	name := d.Preemptor.Name
	if tree, ok := gang.CompositeOf(types.NamespacedName{Namespace: d.Preemptor.Namespace, Name: name}); ok {
		kind, name = v1alpha1.PreemptorComposite, tree.Name
	}
	return v1alpha1.DisruptionPreemptor{Kind: kind, Namespace: d.Preemptor.Namespace, Name: name, UID: types.UID(d.Preemptor.UID)}
}

// write records the intent to evict a whole group with these pods, and returns the group as it was
// written. Pods of an earlier intent that is not complete stay in the intent. After each read of
// the group, write calls the function may. If the function returns an error, write returns the
// error and writes nothing.
func (in *intents) write(ctx context.Context, d *core.Decision, v *core.Victim, pods []*corev1.Pod, may func() error) (*v1alpha1.PodGroup, error) {
	key := types.NamespacedName{Namespace: v.Namespace, Name: v.Name}
	now := metav1.NewTime(in.clock.Now())
	return in.change(ctx, key, func(pg *v1alpha1.PodGroup) error {
		if string(pg.UID) != v.UID {
			return fmt.Errorf("%w: the PodGroup has been replaced by another", ErrOutdated)
		}
		if err := may(); err != nil {
			return err
		}
		listed := sets.New[types.UID]()
		next := &v1alpha1.PodGroupDisruption{Preemptor: preemptorOf(d), Rule: string(v.Rule), Message: d.WhyTaken(v), Time: now, Stops: oneMore(v.Stops)}
		for _, pod := range pods {
			listed.Insert(pod.UID)
			next.Pods = append(next.Pods, v1alpha1.DisruptedPod{Name: pod.Name, UID: pod.UID})
		}
		if before := pg.Status.Disruption; before != nil {
			for _, p := range before.Pods {
				if !listed.Has(p.UID) {
					next.Pods = append(next.Pods, p)
				}
			}
		}
		pg.Status.Disruption = next
		pg.Status.Phase = v1alpha1.PodGroupDisrupted
		setTarget(pg, metav1.ConditionTrue, v1alpha1.ReasonPreemptionByScheduler, next.Message)
		return nil
	})
}

// withdraw removes pods that must stay from the intent of a group. If there is no intent, it does
// nothing. After each read of the group, it calls the function which to get these pods.
func (in *intents) withdraw(ctx context.Context, key types.NamespacedName, which func() sets.Set[types.UID]) error {
	_, err := in.change(ctx, key, func(pg *v1alpha1.PodGroup) error {
		if pg.Status.Disruption == nil {
			return errNothingToChange
		}
		pods := which()
		left := slices.DeleteFunc(slices.Clone(pg.Status.Disruption.Pods), func(p v1alpha1.DisruptedPod) bool { return pods.Has(p.UID) })
		if len(left) == len(pg.Status.Disruption.Pods) {
			return errNothingToChange
		}
		end(pg, left, v1alpha1.ReasonPreemptionWithdrawn, "the preemption was given up before any member was deleted")
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// close removes pods that are gone from the intent of a group. If no pod is left, it ends the
// disruption.
func (in *intents) close(ctx context.Context, key types.NamespacedName, pods sets.Set[types.UID]) error {
	again := false
	_, err := in.change(ctx, key, func(pg *v1alpha1.PodGroup) error {
		again = false
		var left []v1alpha1.DisruptedPod
		if d := pg.Status.Disruption; d != nil {
			left = slices.DeleteFunc(slices.Clone(d.Pods), func(p v1alpha1.DisruptedPod) bool { return pods.Has(p.UID) })
			if len(left) == len(d.Pods) {
				return errNothingToChange
			}
			if len(left) == 0 {
				again = remember(pg, d.Preemptor, d.Rule, d.Time, d.Stops)
			}
		} else if !meta.IsStatusConditionTrue(pg.Status.Conditions, v1alpha1.ConditionDisruptionTarget) {
			return errNothingToChange
		}
		end(pg, left, v1alpha1.ReasonPreemptionByScheduler, "the members that were preempted have gone")
		return nil
	})
	if err == nil && again {
		in.again()
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// mostMembersNamed is the maximum number of members that status.lastDisruption names.
const mostMembersNamed = 64

// note records in the status of a group that some of its members were preempted one by one. stops
// is the number of preemptions that stopped the group since it last made progress. It is 0 if this
// preemption did not stop the group.
func (in *intents) note(ctx context.Context, key types.NamespacedName, by v1alpha1.DisruptionPreemptor, rule string, stops int32, members []string) error {
	now := metav1.NewTime(in.clock.Now())
	slices.Sort(members)
	members = members[:min(len(members), mostMembersNamed)]
	again := false
	_, err := in.change(ctx, key, func(pg *v1alpha1.PodGroup) error {
		again = remember(pg, by, rule, now, stops)
		pg.Status.LastDisruption.Pods = members
		return nil
	})
	if err == nil && again {
		in.again()
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// remember records the last disruption of a group. stops is the number of preemptions that stopped
// the group since it last made progress. It is 0 if this preemption did not stop the group.
// remember reports whether another preemptor preempted the group less than againWithin before.
func remember(pg *v1alpha1.PodGroup, by v1alpha1.DisruptionPreemptor, rule string, at metav1.Time, stops int32) (again bool) {
	last := &v1alpha1.LastDisruption{Preemptor: by, Rule: rule, Time: at, Count: 1}
	if before := pg.Status.LastDisruption; before != nil {
		last.Count += before.Count
		last.Stops, last.StopTime = before.Stops, before.StopTime
		again = before.Preemptor.UID != by.UID && at.Sub(before.Time.Time) < againWithin
	}
	if stops > 0 {
		last.Stops, last.StopTime = stops, &at
	}
	pg.Status.LastDisruption = last
	return again
}

// oneMore returns stops plus one, limited to the largest int32.
func oneMore(stops int32) int32 { return min(stops, math.MaxInt32-1) + 1 }

// stopsOf returns the number of preemptions that stopped a gang since it last made progress,
// including the preemption of the Decision. It is 0 if the Decision leaves minCount members to the
// gang.
func stopsOf(d *core.Decision, key types.NamespacedName) int32 {
	for i := range d.BrokenGangs {
		if g := &d.BrokenGangs[i]; g.Namespace == key.Namespace && g.Name == key.Name {
			return oneMore(g.Stops)
		}
	}
	return 0
}

// end replaces the pods in the intent with left. If left is empty, end ends the disruption.
func end(pg *v1alpha1.PodGroup, left []v1alpha1.DisruptedPod, reason, message string) {
	if len(left) > 0 {
		pg.Status.Disruption.Pods = left
		return
	}
	pg.Status.Disruption = nil
	setTarget(pg, metav1.ConditionFalse, reason, message)
}

func setTarget(pg *v1alpha1.PodGroup, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&pg.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionDisruptionTarget, Status: status, Reason: reason, Message: message,
		ObservedGeneration: pg.Generation,
	})
}

// errNothingToChange ends a change that would change nothing.
var errNothingToChange = fmt.Errorf("nothing to change")

// conflictBackoff configures the retries of a write after a conflict. A user may change a PodGroup
// many times a second, and the write succeeds only between two changes. So there are many tries,
// within half a second.
func conflictBackoff() wait.Backoff {
	return wait.Backoff{Steps: 12, Duration: 2 * time.Millisecond, Factor: 1.5, Jitter: 0.5}
}

// change applies edit to the current status of a group and writes it. After a conflict, it reads
// the group again and repeats this. If the last try has a conflict, change returns that error.
func (in *intents) change(ctx context.Context, key types.NamespacedName, edit func(*v1alpha1.PodGroup) error) (*v1alpha1.PodGroup, error) {
	var changed *v1alpha1.PodGroup
	err := retry.RetryOnConflict(conflictBackoff(), func() error {
		var pg v1alpha1.PodGroup
		if err := in.client.Get(ctx, key, &pg); err != nil {
			return err
		}
		before := *pg.Status.DeepCopy()
		changed = &pg
		if err := edit(&pg); err != nil {
			return err
		}
		err := in.client.Status().Update(ctx, &pg)
		if !apierrors.IsConflict(err) || isDenied(err) || native.IsNative(&pg) {
			return err
		}
		// Call edit again for the newest status, because the reasons for the change may have ended
		// since.
		again := pg.DeepCopy()
		again.Status = *before.DeepCopy()
		if err := edit(again); err != nil {
			return err
		}
		if in.writeOver(ctx, again, &before) == nil {
			changed = again
			return nil
		}
		return err
	})
	if err == errNothingToChange { //nolint:errorlint // It is never wrapped.
		return changed, nil
	}
	return changed, err
}

// writeOver writes the status of a group after a conflict, if the current status equals before. So
// a user who changes the rest of the PodGroup all the time cannot prevent the write. The API server
// applies the patch to the newest object, so it compares the newest status.
func (in *intents) writeOver(ctx context.Context, pg *v1alpha1.PodGroup, before *v1alpha1.PodGroupStatus) error {
	stored, err := asStored(before)
	if err != nil {
		return err
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": pg.UID},
		{"op": "test", "path": "/status", "value": stored},
		{"op": "replace", "path": "/status", "value": pg.Status},
	})
	if err != nil {
		return fmt.Errorf("make the patch: %w", err)
	}
	return in.client.Status().Patch(ctx, pg, client.RawPatch(types.JSONPatchType, patch))
}

// asStored returns the fields of a status as the API server stores them. The schema has a default
// of 0 for the counters, and the Go type omits a counter that is 0. In the test of a JSON patch, a
// counter of 0 and a missing counter differ.
func asStored(status *v1alpha1.PodGroupStatus) (map[string]json.RawMessage, error) {
	data, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	out := make(map[string]json.RawMessage)
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("decode the status: %w", err)
	}
	for _, counter := range [...]string{"pending", "scheduled", "running", "terminating", "finished"} {
		if _, has := out[counter]; !has {
			out[counter] = json.RawMessage("0")
		}
	}
	return out, nil
}
