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
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// classDelay is the delay before a retry if a PriorityClass does not exist, or if a PodGroup must
// be replaced later.
const classDelay = 5 * time.Second

// writer creates and replaces PodGroups for pods without a PodGroup. It replaces a PodGroup with
// outdated settings only while no pod has anything to lose.
type writer struct {
	client  client.Client
	members Members
	// queue returns the queue that a pod itself names.
	queue    func(*corev1.Pod) string
	classes  schedulinglisters.PriorityClassLister
	gangs    *engine.Gangs
	recorder events.EventRecorder
	// made maps each group to the settings of the last PodGroup that was created for it.
	made map[types.NamespacedName]string
}

// remove deletes a PodGroup, because its run is over or it must be replaced.
func (w *writer) remove(ctx context.Context, pg *v1alpha1.PodGroup) (reconcile.Result, error) {
	err := w.client.Delete(ctx, pg, client.Preconditions{UID: &pg.UID, ResourceVersion: &pg.ResourceVersion})
	if err := client.IgnoreNotFound(err); err != nil {
		return retryConflict(fmt.Errorf("delete %s: %w", gang.Title(client.ObjectKeyFromObject(pg)), err))
	}
	return reconcile.Result{}, nil
}

// isDue reports whether to delete a PodGroup at once, so that it is created again with the settings
// in the parameter now. If the deletion must wait, later is the delay before the next check;
// otherwise 0.
func (w *writer) isDue(ctx context.Context, pg *v1alpha1.PodGroup, now *v1alpha1.PodGroupPolicy, d *Derivation) (due bool, later time.Duration) {
	key := client.ObjectKeyFromObject(pg)
	// Do not replace a PodGroup because of the same settings twice. If the API server changes the
	// settings at each write, replacing would never end.
	switch anew := outdated(pg, now, d) && w.made[key] != settingsOf(now); {
	case anew && w.isBeingPlaced(pg, d):
		return false, classDelay
	case anew:
		klog.FromContext(ctx).V(2).Info("Recreating a PodGroup because its settings are outdated and cannot be changed", "podGroup", key)
		return true, 0
	default:
		return false, 0
	}
}

// outdated reports whether a PodGroup must be replaced because of settings that cannot be changed.
// It returns false once a member has a node or has succeeded. Otherwise it returns true in three
// cases. For a group in a tree, "members" means the members of the whole tree, except in the first
// case.
//
//   - The PodGroup names another tree than the group is a part of.
//   - The group must not outrank its members (see [gang.Bounds]) and outranks one of them.
//   - All needed members exist, and the settings differ from the parameter now.
func outdated(pg *v1alpha1.PodGroup, now *v1alpha1.PodGroupPolicy, d *Derivation) bool {
	g, members := d.Group, d.Members
	if g.Ended || g.Suspended || g.Surplus || members.Placed() > 0 || len(members.Pending) == 0 || pg.Status.Disruption != nil {
		return false
	}
	made := gang.FromPodGroup(pg)
	if made.Parent != d.Parent {
		return true
	}
	if d.Tree.Placed() > 0 {
		return false
	}
	if g.IsBounded() && slices.ContainsFunc(living(d.Tree), func(pod *corev1.Pod) bool { return gang.Outranks(made, pod) }) {
		return true
	}
	return members.Available() >= g.Needs(members.Available()) && differences(&pg.Spec.PodGroupPolicy, now) != ""
}

// isBeingPlaced reports whether victims are evicted for the group, room is reserved for it, or
// members are about to be bound. If the group were replaced, these evictions would be useless.
func (w *writer) isBeingPlaced(pg *v1alpha1.PodGroup, d *Derivation) bool {
	promised := func(pod *corev1.Pod) bool { return pod.Status.NominatedNodeName != "" }
	// The members are placed with the tree that the PodGroup names, which may be another one now.
	placing := func(of types.NamespacedName) bool {
		key := gang.KeyOf(of)
		return w.gangs.Verdict(key).Reason == v1alpha1.ReasonPreempting || w.gangs.Planned(key) > 0 || len(w.gangs.Reserved(key)) > 0
	}
	return slices.ContainsFunc([]types.NamespacedName{d.Key, d.Parent, gang.FromPodGroup(pg).Parent}, placing) ||
		slices.ContainsFunc(d.Tree.Pending, promised)
}
