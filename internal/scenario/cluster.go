package scenario

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/simulation"
	"github.com/reprieve-dev/reprieve/internal/whatif"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Assumptions are facts about a cluster that its objects do not contain, such as running times.
type Assumptions struct {
	// Lasts is the length of the simulation. Services run until its end.
	Lasts time.Duration
	// Runs is the running time of work that declares no deadline.
	Runs time.Duration
}

// Facts counts the objects that the simulation uses or leaves out.
type Facts struct {
	// Running and Pending are the numbers of workloads at the start. Pods is the number of their
	// pods.
	Running int `json:"running"`
	Pending int `json:"pending"`
	Pods    int `json:"pods"`
	// Arriving is the number of workloads that arrive later. Told is the number of workloads whose
	// running time is known from a log.
	Arriving int `json:"arriving,omitempty"`
	Told     int `json:"told,omitempty"`
	// Declared is the number of workloads that declare a deadline. Services is the number of
	// workloads without an end. Assumed is the number of all other workloads.
	Declared int `json:"declared"`
	Services int `json:"services"`
	Assumed  int `json:"assumed"`
	// Cordoned is the number of cordoned nodes. They are left out together with their pods.
	Cordoned int `json:"cordonedNodes,omitempty"`
	// Leaving is the number of terminating pods, which are left out. Daemons is the number of pods
	// that belong to their nodes, such as DaemonSet pods; their requests are subtracted from the
	// nodes.
	Leaving int `json:"leavingPods,omitempty"`
	Daemons int `json:"daemonPods,omitempty"`
}

// leastRuns is the minimum of the remaining running time of work.
const leastRuns = time.Minute

// FromCluster converts the objects of a cluster to the input of a simulation: nodes, queues,
// running work and pending work.
func FromCluster(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, a Assumptions) (*simulation.Input, *Facts, error) {
	return fromCluster(ctx, objects, cfg, a, nil)
}

// fromCluster works like FromCluster. known has the arrivals and running times of pods from a log,
// by UID.
func fromCluster(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, a Assumptions, known map[types.UID]lifespan) (*simulation.Input, *Facts, error) {
	cluster, err := whatif.New(ctx, objects, cfg)
	if err != nil {
		return nil, nil, err
	}
	defer cluster.Close()
	nodes, err := inventory.Decode[*corev1.Node](objects, inventory.Nodes)
	if err != nil {
		return nil, nil, fmt.Errorf("nodes: %w", err)
	}
	queues, err := inventory.Decode[*v1alpha1.Queue](objects, inventory.Queues)
	if err != nil {
		return nil, nil, fmt.Errorf("queues: %w", err)
	}
	m := &maker{Assumptions: a, known: known, now: objects.Taken, in: &simulation.Input{Start: objects.Taken, PerGPU: 1}, facts: &Facts{}, at: make(map[string]int)}
	m.addNodes(nodes)
	m.in.Queues = Queues(queues, m.in.Resources)
	work := cluster.Workloads()
	for i := range work {
		m.takeDaemons(&work[i])
	}
	for i := range work {
		m.add(&work[i])
	}
	return m.in, m.facts, nil
}

// Queues converts Queue objects to the queues of a simulation. resources are the names of the
// simulation's resources.
func Queues(queues []*v1alpha1.Queue, resources []string) []fairshare.Queue {
	board := queue.NewLedger()
	for _, q := range queues {
		board.SetQueue(q)
	}
	out := []fairshare.Queue{}
	if standing := board.Snapshot(resources); standing != nil {
		for q := range int32(standing.Tree.Len()) {
			out = append(out, *standing.Tree.Queue(q))
		}
	}
	return out
}

// maker collects the input of a simulation.
type maker struct {
	Assumptions
	now   time.Time
	in    *simulation.Input
	facts *Facts
	// known maps the UID of a pod to its arrival and running time, from a log. It may be nil.
	known map[types.UID]lifespan
	// at maps the name of a node to its index in the input.
	at map[string]int
}

// addNodes adds the nodes to the input, and sets the input's resources.
func (m *maker) addNodes(nodes []*corev1.Node) {
	has := make(map[corev1.ResourceName]int64)
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool {
		if n.Spec.Unschedulable {
			m.facts.Cordoned++
		}
		return n.Spec.Unschedulable
	})
	for _, n := range nodes {
		for name, v := range queue.AmountsOf(n.Status.Allocatable) {
			has[name] += v
		}
	}
	m.in.GPU = -1
	for name, v := range has {
		if v > 0 {
			m.in.Resources = append(m.in.Resources, string(name))
		}
	}
	slices.Sort(m.in.Resources)
	for r, name := range m.in.Resources {
		if workload.IsGPU(name) && (m.in.GPU < 0 || has[corev1.ResourceName(name)] > has[corev1.ResourceName(m.in.Resources[m.in.GPU])]) {
			m.in.GPU = r
		}
	}
	for _, n := range nodes {
		m.at[n.Name] = len(m.in.Nodes)
		m.in.Nodes = append(m.in.Nodes, simulation.Node{Name: n.Name, Allocatable: m.vector(queue.AmountsOf(n.Status.Allocatable))})
	}
}

func (m *maker) vector(amounts queue.Amounts) core.Amounts {
	out := make(core.Amounts, len(m.in.Resources))
	for r, name := range m.in.Resources {
		out[r] = amounts[corev1.ResourceName(name)]
	}
	return out
}

// takeDaemons removes the pods that belong to their nodes, such as DaemonSet pods, from a workload.
// It subtracts the requests of these pods from the nodes.
func (m *maker) takeDaemons(w *whatif.Workload) {
	w.Pods = slices.DeleteFunc(slices.Clone(w.Pods), func(pod *corev1.Pod) bool {
		at, known := m.at[pod.Spec.NodeName]
		owner := metav1.GetControllerOf(pod)
		if owner == nil || owner.Kind != "DaemonSet" && owner.Kind != "Node" {
			return false
		}
		m.facts.Daemons++
		if known {
			for r, v := range m.vector(queue.RequestOf(pod)) {
				m.in.Nodes[at].Allocatable[r] -= v
			}
		}
		return true
	})
}

// add adds a workload to the input. If only some members of a gang run, the input has only the
// running members.
func (m *maker) add(w *whatif.Workload) {
	var runs, waits []*corev1.Pod
	for _, pod := range w.Pods {
		_, known := m.at[pod.Spec.NodeName]
		switch {
		case pod.DeletionTimestamp != nil:
			m.facts.Leaving++
		case pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0:
			waits = append(waits, pod)
		case known:
			runs = append(runs, pod)
		}
	}
	work := simulation.Work{
		Namespace: w.Namespace, Name: w.Name, Queue: w.Queue, Priority: w.Priority, RaisedBy: w.RaisedBy, Never: w.Never, Gang: w.Gang, Whole: w.Whole, MinCount: w.MinCount,
	}
	pods := runs
	switch {
	case len(runs) > 0:
		m.facts.Running++
		work.MinCount = min(work.MinCount, len(runs))
		start := m.startOf(runs)
		work.Ran = m.now.Sub(start)
		for _, pod := range runs {
			work.On = append(work.On, pod.Spec.NodeName)
		}
	case len(waits) >= w.MinCount && len(waits) > 0:
		m.facts.Pending++
		pods = waits
		// All pending work arrives at the beginning. The milliseconds keep the order of the
		// workloads.
		work.Submitted = time.Duration(m.facts.Pending) * time.Millisecond
	default:
		return
	}
	m.facts.Pods += len(pods)
	for _, pod := range pods {
		work.Requests = append(work.Requests, m.vector(queue.RequestOf(pod)))
	}
	m.takeProgress(&work, pods, w.Progress)
	m.schedule(&work, pods)
	m.in.Work = append(m.in.Work, work)
}

// schedule sets the arrival and the running time of work. They come from a log, or from the
// assumptions if the log does not have them.
func (m *maker) schedule(work *simulation.Work, pods []*corev1.Pod) {
	span := m.told(pods)
	if work.On == nil && span.arrives > 0 {
		work.Submitted = span.arrives
		m.facts.Pending--
		m.facts.Arriving++
	}
	if span.runs > 0 && (!span.open || !slices.ContainsFunc(pods, isService)) {
		work.Runs = span.runs
		m.facts.Told++
		return
	}
	work.Runs = m.runs(pods, work.Ran)
}

// isService reports whether the controller of a pod replaces each pod that ends.
func isService(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && slices.Contains([]string{"ReplicaSet", "StatefulSet", "ReplicationController"}, owner.Kind)
}

// startOf returns the latest start time of the pods.
func (m *maker) startOf(pods []*corev1.Pod) time.Time {
	var last time.Time
	for _, pod := range pods {
		if at := pod.Status.StartTime; at != nil && at.After(last) {
			last = at.Time
		}
	}
	if last.IsZero() || last.After(m.now) {
		return m.now
	}
	return last
}

// runs returns how long work runs after the start of the simulation. ran is the time that the work
// has run before.
func (m *maker) runs(pods []*corev1.Pod, ran time.Duration) time.Duration {
	deadline := time.Duration(0)
	for _, pod := range pods {
		if isService(pod) {
			m.facts.Services++
			return m.Lasts + leastRuns
		}
		if s := pod.Spec.ActiveDeadlineSeconds; s != nil {
			deadline = max(deadline, time.Duration(*s)*time.Second)
		}
	}
	switch {
	case deadline > 0:
		m.facts.Declared++
		return max(deadline-ran, leastRuns)
	case ran > 0:
		m.facts.Assumed++
		return max(ran, leastRuns)
	default:
		m.facts.Assumed++
		return cmp.Or(m.Runs, leastRuns)
	}
}
