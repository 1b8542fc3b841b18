package soak

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

const (
	// years is a grace period in seconds. It is much longer than any run of the test.
	years = 1_000_000_000
	// filling is the size of a large annotation in bytes. The API server permits 256 KiB.
	filling = 200 << 10
)

// deed is a hostile action of the tenant, which must not affect other users.
type deed struct {
	name string
	do   func(t *tenant, ctx context.Context, pods map[string][]*corev1.Pod) (done bool, err error)
}

// deeds returns all deeds.
func deeds() []deed {
	return []deed{
		{"relabels a running pod", (*tenant).relabel},
		{"deletes a PodGroup of running pods", (*tenant).deleteGroup},
		{"creates a PodGroup again with a better class", (*tenant).raise},
		{"replaces a member", (*tenant).replace},
		{"deletes a pod with a very long grace period", (*tenant).linger},
		{"changes minCount", (*tenant).toggle},
		{"fills a PodGroup with annotations", (*tenant).fill},
	}
}

// pick returns a random running pod of the tenant, and its job. The job must match "is" and must
// not be in t.raised.
func (t *tenant) pick(pods map[string][]*corev1.Pod, is func(*job) bool) (*job, *corev1.Pod) {
	var candidates []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(t.jobs)) {
		if t.raised[name] || !is(t.jobs[name]) {
			continue
		}
		for _, pod := range pods[name] {
			if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
				candidates = append(candidates, pod)
			}
		}
	}
	if len(candidates) == 0 {
		return nil, nil
	}
	pod := candidates[t.random.IntN(len(candidates))]
	return t.jobs[pod.Labels[jobLabel]], pod
}

func anyJob(*job) bool { return true }

func anyGang(j *job) bool { return j.gang }

// relabel removes the label for the queue or the group from a running pod, or adds the removed
// label again.
func (t *tenant) relabel(ctx context.Context, pods map[string][]*corev1.Pod) (bool, error) {
	j, pod := t.pick(pods, anyJob)
	if pod == nil {
		return false, nil
	}
	key, value := v1alpha1.LabelQueue, hostileQueue
	if j.gang {
		key, value = v1alpha1.LabelPodGroup, j.name
	}
	text := fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, key)
	if pod.Labels[key] == "" {
		text = fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	}
	return true, client.IgnoreNotFound(t.edit.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text))))
}

// deleteGroup deletes a PodGroup with running members. The function keepUp creates it again.
func (t *tenant) deleteGroup(ctx context.Context, pods map[string][]*corev1.Pod) (bool, error) {
	j, pod := t.pick(pods, anyGang)
	if pod == nil {
		return false, nil
	}
	j.changed = time.Now()
	return true, client.IgnoreNotFound(t.edit.Delete(ctx, j.groupIn(tenantNamespace)))
}

// raise replaces the PodGroup of a running gang. The new PodGroup has a PriorityClass that
// tolerates most preemptors, and the disruption mode PodGroup.
func (t *tenant) raise(ctx context.Context, pods map[string][]*corev1.Pod) (bool, error) {
	j, pod := t.pick(pods, anyGang)
	if pod == nil || t.random.IntN(3) > 0 || len(pods[j.name]) < j.members || time.Since(j.changed) < recreateAfter {
		return false, nil
	}
	// Do nothing while a member has no node. The member could still be placed with the new class.
	for _, member := range pods[j.name] {
		if member.Spec.NodeName == "" {
			return false, nil
		}
	}
	j.changed = time.Now()
	if err := client.IgnoreNotFound(t.edit.Delete(ctx, j.groupIn(tenantNamespace))); err != nil {
		return false, err
	}
	t.raised[j.name] = true
	better := j.groupIn(tenantNamespace)
	better.Spec.PriorityClassName, better.Spec.DisruptionMode = ptr.To("sturdy"), ptr.To(v1alpha1.DisruptionModePodGroup)
	return true, t.edit.Create(ctx, better)
}

// replace deletes a member of a gang. The function keepUp creates another one.
func (t *tenant) replace(ctx context.Context, pods map[string][]*corev1.Pod) (bool, error) {
	j, pod := t.pick(pods, anyGang)
	if pod == nil {
		return false, nil
	}
	return true, t.deletePod(ctx, pod, j.grace)
}

// linger deletes a pod with an extremely long grace period. It does nothing while another such pod
// exists.
func (t *tenant) linger(ctx context.Context, pods map[string][]*corev1.Pod) (bool, error) {
	for _, pod := range slices.Concat(slices.Collect(maps.Values(pods))...) {
		if _, ok := t.stuck[pod.Name]; ok {
			return false, nil
		}
	}
	clear(t.stuck)
	_, pod := t.pick(pods, anyJob)
	if pod == nil {
		return false, nil
	}
	t.stuck[pod.Name] = time.Now().Add(stuckFor)
	return true, t.deletePod(ctx, pod, years)
}

// toggle changes the minCount of the gang that has no room: it sets 1 or a very large number.
func (t *tenant) toggle(ctx context.Context, _ map[string][]*corev1.Pod) (bool, error) {
	j := t.jobs[misfit]
	if j == nil || j.made == 0 {
		return false, nil
	}
	minCount := 1
	if t.random.IntN(2) == 0 {
		minCount = 1_000_000
	}
	return true, t.patchGroup(ctx, misfit, fmt.Sprintf(`{"spec":{"schedulingPolicy":{"gang":{"minCount":%d}}}}`, minCount))
}

// fill adds a large annotation to a PodGroup.
func (t *tenant) fill(ctx context.Context, pods map[string][]*corev1.Pod) (bool, error) {
	j, pod := t.pick(pods, anyGang)
	if pod == nil || t.random.IntN(5) > 0 {
		return false, nil
	}
	return true, t.patchGroup(ctx, j.name, fmt.Sprintf(`{"metadata":{"annotations":{"fill":%q}}}`, strings.Repeat("x", filling)))
}

func (t *tenant) patchGroup(ctx context.Context, name, text string) error {
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: name}}
	return client.IgnoreNotFound(t.edit.Patch(ctx, pg, client.RawPatch(types.MergePatchType, []byte(text))))
}
