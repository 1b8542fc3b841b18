package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// classDelay is when a class is looked for again that does not exist, and when a group is to be made anew that cannot be yet.
const classDelay = 5 * time.Second

// writer is what writes PodGroups for pods that have none, and makes them anew as long as that costs the pods nothing.
type writer struct {
	client  client.Client
	members Members
	// queue is the queue that a pod names by itself.
	queue    func(*corev1.Pod) string
	classes  schedulinglisters.PriorityClassLister
	registry *gang.Registry
	recorder events.EventRecorder
	// made are the settings with which groups were written last.
	made map[types.NamespacedName]string
}

// remove takes a group away whose run is over, or that is to be made anew.
func (w *writer) remove(ctx context.Context, pg *v1alpha1.PodGroup) (reconcile.Result, error) {
	err := w.client.Delete(ctx, pg, client.Preconditions{UID: &pg.UID, ResourceVersion: &pg.ResourceVersion})
	if err := client.IgnoreNotFound(err); err != nil {
		return retryConflict(fmt.Errorf("delete PodGroup %s/%s: %w", pg.Namespace, pg.Name, err))
	}
	return reconcile.Result{}, nil
}

// isDue reports whether a group is to be removed, so that it is made anew with the settings of now; or when to ask again.
func (w *writer) isDue(ctx context.Context, pg *v1alpha1.PodGroup, now *v1alpha1.PodGroupPolicy, g grouping.Group, members *gang.Members,
) (due bool, later time.Duration) {
	key := client.ObjectKeyFromObject(pg)
	// What the API server makes something else of is not made over and over.
	switch anew := outdated(pg, now, g, members) && w.made[key] != settingsOf(now); {
	case anew && w.isBeingPlaced(key, members):
		return false, classDelay
	case anew:
		klog.FromContext(ctx).V(2).Info("Making a PodGroup anew, whose settings have changed and cannot be", "podGroup", key)
		return true, 0
	default:
		return false, 0
	}
}

// outdated reports whether a group is to be made anew, because what it was made with cannot be changed. That is so while none of its
// members has had a node: where it stands above one that has come since; and where its object, or all the pods that it needs, say
// other than it does.
func outdated(pg *v1alpha1.PodGroup, now *v1alpha1.PodGroupPolicy, g grouping.Group, members *gang.Members) bool {
	if g.Ended || g.Suspended || g.Surplus || members.Placed() > 0 || len(members.Pending) == 0 || pg.Status.Disruption != nil {
		return false
	}
	made := gang.FromPodGroup(pg)
	if g.IsBounded() && slices.ContainsFunc(living(members), func(pod *corev1.Pod) bool { return gang.Outranks(made, pod) }) {
		return true
	}
	return members.Available() >= g.Needs(members.Available()) && differences(&pg.Spec.PodGroupPolicy, now) != ""
}

// isBeingPlaced reports whether room is being made for a group, or kept for it, or its members are on their way there. Were it made
// anew then, victims would have gone for nothing.
func (w *writer) isBeingPlaced(key types.NamespacedName, members *gang.Members) bool {
	promised := func(pod *corev1.Pod) bool { return pod.Status.NominatedNodeName != "" }
	return w.registry.Verdict(key).Reason == v1alpha1.ReasonPreempting || w.registry.Planned(key) > 0 || len(w.registry.Reserved(key)) > 0 ||
		slices.ContainsFunc(members.Pending, promised)
}
