package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// stage holds the demo's view of the cluster: the last version of every pod that ever existed, and
// the PodGroups.
type stage struct {
	out *narrator

	mu     sync.Mutex
	pods   map[types.UID]*corev1.Pod
	gone   map[types.UID]bool
	groups map[string]*v1alpha1.PodGroup
	// classless is true once a condition of a PodGroup has reported a missing PriorityClass.
	classless bool
	// changed is closed at every change of the stage, and then replaced by a new channel.
	changed chan struct{}
}

// watch starts to watch the cluster and to narrate its changes. The watch ends with ctx.
func watch(ctx context.Context, config *rest.Config, out *narrator) (*stage, error) {
	s := &stage{
		out: out, pods: make(map[types.UID]*corev1.Pod), gone: make(map[types.UID]bool),
		groups: make(map[string]*v1alpha1.PodGroup), changed: make(chan struct{}),
	}
	sch := runtime.NewScheme()
	if err := scheme.AddToScheme(sch); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(sch); err != nil {
		return nil, err
	}
	objects, err := cache.New(config, cache.Options{
		Scheme:            sch,
		DefaultNamespaces: map[string]cache.Config{metav1.NamespaceDefault: {}},
	})
	if err != nil {
		return nil, fmt.Errorf("watch the cluster: %w", err)
	}
	for _, kind := range []client.Object{&corev1.Pod{}, &v1alpha1.PodGroup{}} {
		informer, err := objects.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { s.see(obj, false) },
			UpdateFunc: func(_, obj any) { s.see(obj, false) },
			DeleteFunc: func(obj any) { s.see(obj, true) },
		}); err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	go func() {
		if err := objects.Start(ctx); err != nil && ctx.Err() == nil {
			out.say("the demo lost sight of the cluster: %v", err)
		}
	}()
	if !objects.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("watch the cluster: %w", context.Cause(ctx))
	}
	return s, nil
}

// see records a change of an object, and narrates the change if it is part of the story.
func (s *stage) see(obj any, deleted bool) {
	if d, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = d.Obj
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := obj.(type) {
	case *corev1.Pod:
		s.tellPod(s.pods[o.UID], o, deleted)
		s.pods[o.UID] = o
		s.gone[o.UID] = deleted
	case *v1alpha1.PodGroup:
		s.tellGroup(s.groups[o.Name], o)
		s.groups[o.Name] = o
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *stage) tellPod(before, now *corev1.Pod, deleted bool) {
	was := corev1.Pod{}
	if before != nil {
		was = *before
	}
	switch {
	case deleted:
		s.out.say("pod %s is gone", now.Name)
	case now.DeletionTimestamp != nil && was.DeletionTimestamp == nil:
		why := "deleted"
		if c := disruption(now); c != nil {
			why = c.Message
		}
		s.out.say("pod %s is evicted from %s: %s", now.Name, now.Spec.NodeName, why)
	case now.Status.NominatedNodeName != "" && was.Status.NominatedNodeName == "" && now.Spec.NodeName == "":
		s.out.say("pod %s is nominated for %s", now.Name, now.Status.NominatedNodeName)
	case now.Spec.NodeName != "" && was.Spec.NodeName == "":
		s.out.say("pod %s is bound to %s", now.Name, now.Spec.NodeName)
	}
}

// tellGroup narrates changes in the conditions of a PodGroup, once the scheduler has set its
// priority. Earlier conditions may report for a moment that the PriorityClass is missing, although
// the demo has applied it.
func (s *stage) tellGroup(before, now *v1alpha1.PodGroup) {
	if now.Spec.Priority == nil {
		return
	}
	for _, c := range now.Status.Conditions {
		if c.Type == v1alpha1.ConditionPodGroupScheduled && c.ObservedGeneration < now.Generation {
			continue
		}
		if before != nil {
			if b := meta.FindStatusCondition(before.Status.Conditions, c.Type); b != nil && b.Status == c.Status && b.Reason == c.Reason {
				continue
			}
		}
		s.classless = s.classless || c.Reason == v1alpha1.ReasonPriorityClassNotFound
		s.out.say("PodGroup %s: %s is %s (%s): %s", now.Name, c.Type, c.Status, c.Reason, c.Message)
	}
}

// wait returns nil once the predicate returns nil, and an error after actTimeout. It calls the
// predicate under the stage's lock.
func (s *stage) wait(ctx context.Context, what string, predicate func() error) error {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	for {
		s.mu.Lock()
		missing := predicate()
		changed := s.changed
		s.mu.Unlock()
		if missing == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (%w)", what, missing, context.Cause(ctx))
		case <-changed:
		}
	}
}

// live returns the pods with a label, without deleted pods.
func (s *stage) live(label, value string) []*corev1.Pod {
	var out []*corev1.Pod
	for uid, pod := range s.pods {
		if !s.gone[uid] && pod.Labels[label] == value {
			out = append(out, pod)
		}
	}
	return out
}

// disruption returns the condition DisruptionTarget of a pod, or nil.
func disruption(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.DisruptionTarget {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
