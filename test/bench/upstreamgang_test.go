package bench

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/ptr"
)

const upstreamProfile = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: upstream
`

// timed lets a watch run while the framework's preemption for PodGroups does.
type timed struct {
	framework.Framework
	watch   stopwatch
	decided *fwk.Status
}

// PodGroupPostFilterPlugins is part of framework.Framework.
func (t *timed) PodGroupPostFilterPlugins() []framework.PodGroupPostFilterPlugin {
	plugins := t.Framework.PodGroupPostFilterPlugins()
	for i := range plugins {
		plugins[i] = &timedPlugin{PodGroupPostFilterPlugin: plugins[i], timed: t}
	}
	return plugins
}

type timedPlugin struct {
	framework.PodGroupPostFilterPlugin
	timed *timed
}

// PodGroupPostFilter is part of framework.PodGroupPostFilterPlugin.
func (p *timedPlugin) PodGroupPostFilter(ctx context.Context, pg *schedulingv1alpha2.PodGroup, pods []*corev1.Pod, try func(context.Context) *fwk.Status) *fwk.Status {
	p.timed.watch.StartTimer()
	p.timed.decided = p.PodGroupPostFilterPlugin.PodGroupPostFilter(ctx, pg, pods, try)
	p.timed.watch.StopTimer()
	return p.timed.decided
}

// upstreamGang is a decision by upstream's PodGroupEvaluator, in a cycle of upstream's own scheduler, which places
// the gang for it as often as it asks. Only the preemption counts, not the cycle's first attempt. Each run has a
// scheduler of its own.
func upstreamGang(tb testing.TB, s shape) trial {
	tb.Helper()
	gates := func(on bool) {
		// They belong to the process, and Reprieve runs without them.
		err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
			string(features.GenericWorkload): on, string(features.GangScheduling): on, string(features.WorkloadAwarePreemption): on,
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	return func(watch stopwatch) {
		gates(true)
		defer gates(false)
		runUpstreamGang(tb, s, watch)
	}
}

// runUpstreamGang runs one cycle of upstream's scheduler.
func runUpstreamGang(tb testing.TB, s shape, watch stopwatch) {
	tb.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(tb.Context()), logr.Discard()))
	defer cancel()
	group := &schedulingv1alpha2.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: gangKey().Namespace, Name: gangKey().Name, UID: "urgent"},
		Spec: schedulingv1alpha2.PodGroupSpec{
			Priority: ptr.To[int32](urgent),
			SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{
				Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: int32(s.gang)},
			},
		},
	}
	client := fake.NewClientset(group)
	factory := informers.NewSharedInformerFactory(client, 0)
	sched, err := kubescheduler.New(ctx, client, factory, nil,
		profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})),
		kubescheduler.WithProfiles(decodeProfiles(tb, upstreamProfile)...))
	if err != nil {
		tb.Fatal(err)
	}
	defer sched.SchedulingQueue.Close()
	must := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	must(factory.Scheduling().V1alpha2().PodGroups().Informer().GetIndexer().Add(group))
	logger, pods := klog.FromContext(ctx), factory.Core().V1().Pods().Informer().GetIndexer()
	for n := range s.nodes {
		sched.Cache.AddNode(logger, s.apiNode(n))
		for i := range s.perNode {
			pod := s.apiRunning(n, i)
			must(sched.Cache.AddPod(logger, pod))
			must(pods.Add(pod))
		}
	}
	members := s.apiPreemptor()
	for _, pod := range members {
		pod.Spec.SchedulerName = upstream
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(group.Name)}
		must(pods.Add(pod))
		sched.Cache.AddPodGroupMember(pod)
	}
	for _, pod := range members {
		sched.SchedulingQueue.Add(ctx, pod)
	}
	fw, plugin := &timed{Framework: sched.Profiles[upstream], watch: watch}, defaultPreemptionOf(tb, sched.Profiles[upstream])
	sched.Profiles[upstream] = fw
	evicted := new(evictedPods)
	plugin.Executor.PreemptPod = evicted.preempt
	sched.FailureHandler = func(context.Context, framework.Framework, *framework.QueuedPodInfo, *fwk.Status, *fwk.NominatingInfo, time.Time) {
	}
	sched.ScheduleOne(ctx)
	if !fw.decided.IsSuccess() {
		tb.Fatalf("Upstream's preemption for the gang: %v", fw.decided)
	}
	for plugin.Executor.IsPodGroupRunningPreemption(group.UID) {
		runtime.Gosched()
	}
	if evicted.count.Load() == 0 {
		tb.Fatal("Upstream's preemption for the gang took nobody")
	}
}

// evictedPods counts what an executor would evict.
type evictedPods struct{ count atomic.Int64 }

func (e *evictedPods) preempt(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *corev1.Pod, string) error {
	e.count.Add(1)
	return nil
}
