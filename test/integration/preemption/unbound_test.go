package preemption

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// turnedBack is part of the event about a victim that returned to the queue instead of being
// deleted.
const turnedBack = "before it was bound"

// TestVictimsInPreBind tests victims that have a node but wait in PreBind for their volumes. They
// must return to the scheduling queue, and must not be deleted.
func TestVictimsInPreBind(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		gang int
		// waiting has the names of the pods that wait for a volume. The other members are bound.
		waiting     []string
		wantDeleted []string
	}{
		"a pod":                       {waiting: []string{"victim"}},
		"a gang":                      {gang: 2, waiting: []string{"victim-0", "victim-1"}},
		"one of a gang, one is bound": {gang: 2, waiting: []string{"victim-0"}, wantDeleted: []string{"victim-1"}},
	}
	for name, c := range cases {
		each(t, name, c.gang > 0, func(e *env) {
			size := int64(max(c.gang, 1))
			e.addNodes("a", 1, 2*size)
			e.addStorageClass()
			for _, pod := range c.waiting {
				e.createClaim(pod)
			}
			victim := unitSpec{name: "victim", cpus: 2, priority: "low", zone: "a", gang: c.gang, change: func(pod *corev1.Pod) {
				if slices.Contains(c.waiting, pod.Name) {
					useClaim(pod)
				}
			}}
			e.create(victim)
			e.waitPreBind(c.waiting...)
			for _, pod := range c.wantDeleted {
				e.Eventually(pod+" runs", func(ctx context.Context) string {
					if phase := e.Find(ctx, pod).Status.Phase; phase != corev1.PodRunning {
						return "it is " + string(phase)
					}
					return ""
				})
			}
			uids := e.uids("victim")

			// The preemptor needs the room of one member, but the gang must be evicted as a whole.
			urgent := unitSpec{name: "urgent", cpus: 1, priority: "mid", zone: "a"}
			e.create(urgent)
			e.waitRunning(urgent)
			for _, pod := range c.waiting {
				e.waitEvent(pod, "Preempted", "urgent", turnedBack)
			}
			e.Never("who waited is not deleted", func(ctx context.Context) string {
				if got := e.deleted(); !slices.Equal(got, c.wantDeleted) {
					return fmt.Sprintf("%v were, want %v", got, c.wantDeleted)
				}
				for _, name := range c.waiting {
					if pod := e.Find(ctx, name); pod == nil || pod.UID != uids[name] || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
						return name + " is not what it was"
					}
				}
				return ""
			})
			if len(c.wantDeleted) > 0 {
				return
			}
			// Free the room. The pods must then be scheduled from the queue.
			e.remove(urgent)
			for _, pod := range c.waiting {
				e.provide(pod)
			}
			e.waitRunning(victim)
		})
	}
}

// addStorageClass creates a StorageClass without a provisioner. The test itself creates the
// volumes.
func (e *env) addStorageClass() {
	e.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: e.Namespace},
		Provisioner:       "test.reprieve.dev/nobody",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	e.Create(class)
	e.deleteInTheEnd(class)
}

func (e *env) createClaim(name string) {
	e.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To(e.Namespace),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi"),
			}},
		},
	}
	e.Create(claim)
}

// useClaim adds a volume to a pod. The claim has the name of the pod.
func useClaim(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pod.Name},
	}}}
}

// waitPreBind waits until the scheduler has requested volumes for the claims. The scheduler does
// this in PreBind.
func (e *env) waitPreBind(claims ...string) {
	e.Helper()
	for _, name := range claims {
		e.Eventually("a volume is asked for "+name, func(ctx context.Context) string {
			claim, err := e.Kube.CoreV1().PersistentVolumeClaims(e.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if claim.Annotations["volume.kubernetes.io/selected-node"] == "" {
				return "no node is selected"
			}
			return ""
		})
	}
}

// provide creates a volume for a claim.
func (e *env) provide(claim string) {
	e.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: e.Namespace + "-" + claim},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              e.Namespace,
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &corev1.ObjectReference{Namespace: e.Namespace, Name: claim},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		},
	}
	e.Create(volume)
	e.deleteInTheEnd(volume)
}

// deleteInTheEnd deletes a cluster-scoped object after the test.
func (e *env) deleteInTheEnd(o client.Object) {
	e.Cleanup(func() {
		if err := e.Objects.Delete(context.WithoutCancel(e.Context()), o); err != nil {
			e.Error(err)
		}
	})
}

func (e *env) uids(unit string) map[string]types.UID {
	out := map[string]types.UID{}
	for _, pod := range e.unit(e.Context(), unit) {
		out[pod.Name] = pod.UID
	}
	return out
}

// heldResource is an extended resource. The scheduler calls the extender of TestVictimsAtPermit
// only for pods that request it.
const heldResource = "test.reprieve.dev/held"

// gate is a scheduler extender. It accepts all nodes, but responds only after the test has closed
// the channel leave.
type gate struct {
	askedOnce, leaveOnce sync.Once
	asked, leave         chan struct{}
}

func newGate() *gate { return &gate{asked: make(chan struct{}), leave: make(chan struct{})} }

func (g *gate) open() { g.leaveOnce.Do(func() { close(g.leave) }) }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var args extenderv1.ExtenderArgs
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	g.askedOnce.Do(func() { close(g.asked) })
	<-g.leave
	_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: args.NodeNames, Nodes: args.Nodes})
}

// TestVictimsAtPermit tests a gang whose first member waits at Permit for the second member. Both
// members must return to the scheduling queue, and must not be deleted. An extender holds the
// second member in its scheduling cycle until the preemptor is the next pod in the queue.
//
//nolint:tparallel // There is one extender, and one scheduler that asks it.
func TestVictimsAtPermit(t *testing.T) {
	t.Parallel()
	var now atomic.Pointer[gate]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	config, err := schedulerConfig(`extenders:
- urlPrefix: ` + server.URL + `
  filterVerb: filter
  nodeCacheCapable: true
  httpTimeout: 2m
  managedResources: [{name: ` + heldResource + `, ignoredByScheduler: true}]
`).Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := stage.New(t, playground.Options{
		Scheduler: playground.SchedulerOptions{Config: config}, NativeWorkloadAPI: true,
	})
	s.CreateClasses(priorityClasses)
	for _, api := range stage.GroupAPIs(t) {
		g := newGate()
		now.Store(g)
		t.Run(api.Name, func(t *testing.T) {
			e := &env{Stage: s.In(t)}
			e.Groups = api
			t.Cleanup(g.open)
			e.turnBackAtPermit(g)
		})
	}
}

func (e *env) turnBackAtPermit(g *gate) {
	e.Helper()
	e.addNodes("a", 1, 4)
	victim := unitSpec{name: "victim", cpus: 2, priority: "low", gang: 2, change: func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests[heldResource] = resource.MustParse("1")
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{heldResource: resource.MustParse("1")}
	}}
	e.create(victim)
	select {
	case <-g.asked:
	case <-time.After(stage.Patience):
		e.Fatal("The extender is not asked")
	}
	uids := e.uids("victim")
	urgent := unitSpec{name: "urgent", cpus: 4, priority: "mid"}
	active := e.activePods()
	e.create(urgent)
	e.Eventually("the preemptor is in the queue", func(context.Context) string {
		if now := e.activePods(); now != active+1 {
			return fmt.Sprintf("%v pods are, %v were", now, active)
		}
		return ""
	})
	g.open()
	e.waitRunning(urgent)
	e.Eventually("one of them is told", func(ctx context.Context) string {
		for _, name := range victim.names() {
			for _, ev := range e.EventsOf(ctx, name, "Preempted") {
				if strings.Contains(ev.Message, turnedBack) {
					return ""
				}
			}
		}
		return "none is"
	})
	e.Never("both are pending", func(ctx context.Context) string {
		for _, name := range victim.names() {
			if pod := e.Find(ctx, name); pod == nil || pod.UID != uids[name] || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
				return name + " is not what it was"
			}
		}
		return ""
	})
	e.remove(urgent)
	e.waitRunning(victim)
}

// activePods returns the number of pods in the active queue of the scheduler.
func (e *env) activePods() float64 {
	e.Helper()
	return e.Metrics(e.Run.Component(playground.Scheduler)).Sum("scheduler_pending_pods", `queue="active"`)
}
