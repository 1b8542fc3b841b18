package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/runs"
)

// seals records the queue, the priority and other facts that apply to a pod as long as it has its
// node. Reserve calls it, and [Plugins.Seals] returns the facts to the binder. It is safe for
// concurrent use.
type seals struct {
	index   *cluster.Index
	ledger  *cluster.Ledger
	records *engine.Pods
	runs    *runs.Reader
	clock   clock.WithTicker
}

// Seals returns the annotations to add to a pod when it is bound. They hold the pod's seal; see
// [gang.Seal]. The result is nil for a pod without a recorded seal. Any goroutine may call it.
func (ps *Plugins) Seals(uid types.UID) map[string]string {
	sched := ps.Scheduler()
	if sched == nil {
		return nil
	}
	seal := sched.records.SealOf(string(uid))
	if seal == "" {
		return nil
	}
	return map[string]string{v1alpha1.AnnotationPlacedAs: seal}
}

// seal records the seal of a pod that has just been assumed on a node.
func (ss *seals) seal(pod *corev1.Pod) {
	s := ss.of(pod)
	text, err := s.Text()
	if err != nil {
		klog.Background().Error(err, "Seal a pod", "pod", klog.KObj(pod))
		return
	}
	ss.records.Seals(string(pod.UID), text)
}

// of returns a seal with the facts that apply to a pod now, such as its queue and priority.
func (ss *seals) of(pod *corev1.Pod) gang.Seal {
	s := gang.Seal{Queue: ss.ledger.QueueOf(pod), Priority: ss.index.PriorityOf(pod), Class: pod.Spec.PriorityClassName}
	if key, ok := gang.GroupOf(pod); ok {
		s.Group = key.Name
	}
	g := ss.index.Group(pod)
	if g == nil {
		return s
	}
	run := ss.runs.Current(g, ss.clock.Now())
	// The disruption mode PodGroup counts only if every earlier member of the run was sealed with
	// it. If any member was sealed with the mode Pod, all members are evicted one by one, including
	// later members.
	s.MinCount, s.Whole = g.MinCount, g.Whole && !run.Sealed.Split
	if key, ok := ss.index.PodGroupOf(pod); ok {
		_, s.Never = ss.index.NeverGroup(key)
	}
	if s.Role = ss.index.RoleInSeal(pod); g.Priority != nil {
		s.Class = g.PriorityClassName
	}
	if !g.IsGang() {
		// The seal needs no start. Each member has its own start time, or the group's status has
		// the start.
		return s
	}
	if at := run.Clock; !at.IsZero() {
		s.Since = &metav1.Time{Time: at}
	}
	return s
}

// goesWhole reports whether the running members of a group are evicted together.
func (sp *surplus) goesWhole(g *gang.Group) bool {
	return g.Whole && !sp.runs.Current(g, sp.clock.Now()).Sealed.Split
}
