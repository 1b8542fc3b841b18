package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// unschedulable is a set of requests that found no room on any node. fastReject rejects pods with
// such requests before the filters run.
type unschedulable struct {
	asks sets.Set[ask]
}

// ask is the total of a pod's requests, in a form that can be compared. CPU is in millicores,
// memory and storage are in bytes. scalars lists the other resources as text.
type ask struct {
	milliCPU, memory, storage int64
	scalars                   string
}

// mostMisfits is the maximum number of requests in an unschedulable. When it is reached, the set is
// cleared.
const mostMisfits = 256

func askOf(request fwk.Resource) ask {
	var scalars strings.Builder
	if all := request.GetScalarResources(); len(all) > 0 {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(&scalars, "%s=%d ", name, all[name])
		}
	}
	return ask{
		milliCPU: request.GetMilliCPU(), memory: request.GetMemory(), storage: request.GetEphemeralStorage(),
		scalars: scalars.String(),
	}
}

func (m *unschedulable) add(a ask) {
	if m.asks == nil || len(m.asks) >= mostMisfits {
		m.asks = sets.New[ask]()
	}
	m.asks.Insert(a)
}

// fastReject rejects a pod before the filters run, if its requests found no room earlier and still
// have none on any node. It returns nil if there may be room.
func (p *Plugin) fastReject(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) *fwk.Status {
	// Check a pod with a reservation only while it waits for its victims. Once they are gone, the
	// pod fits on its node, so the recorded failure of its requests is outdated.
	promised := p.sched.reserved.Has(string(pod.UID)) || pod.Status.NominatedNodeName != ""
	if len(p.unschedulable.asks) == 0 || promised && !p.sched.waits.WaitsForVictims(p.sched.index.KeyOf(pod)) || !p.filtersResources() {
		return nil
	}
	a, err := askFor(pod)
	if err != nil || !p.unschedulable.asks.Has(a) {
		return nil
	}
	start, pre := p.sched.clock.Now(), p.podPreemptor(pod)
	classes, err := p.classesOf(&pre)
	if err != nil {
		return fwk.AsStatus(err)
	}
	v, err := p.newView(&pre)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("decide for %s: %w", pre.key, err))
	}
	short, nowhere := v.Cluster.ShortOf(p.input(&pre, v, classes))
	if !nowhere || v.LacksResource() {
		if !promised {
			// Let the filters decide. A node may have room now, or a DeviceClass may map a resource
			// that no node has to devices.
			p.unschedulable.asks.Delete(a)
		}
		return nil
	}
	made, err := p.decideIn(ctx, pre, v, classes, start)
	if err != nil {
		return fwk.AsStatus(err)
	}
	state.Write(decisionKey, made)
	return fwk.NewStatus(fwk.Unschedulable, besideReserved(short, &made.decision))
}

// noteUnschedulable records the requests of a pod that found no room, for later calls of
// fastReject.
func (p *Plugin) noteUnschedulable(pod *corev1.Pod) {
	if a, err := askFor(pod); err == nil {
		p.unschedulable.add(a)
	}
}

func askFor(pod *corev1.Pod) (ask, error) {
	pi, err := framework.NewPodInfo(pod)
	if err != nil {
		return ask{}, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return askOf(pi.CalculateResource().Resource), nil
}

// filtersResources reports whether the profile runs the filter for node resources.
func (p *Plugin) filtersResources() bool {
	for _, pl := range p.handle.ListPlugins().Filter.Enabled {
		if pl.Name == names.NodeResourcesFit {
			return true
		}
	}
	return false
}

// besideReserved returns a message in the form of the function insufficient. nodes maps each
// resource to the number of nodes that lack it. If the free room of a node suffices but is reserved
// for other pods, the message counts the node separately.
func besideReserved(nodes map[string]int, d *core.Decision) string {
	reserved := 0
	for _, out := range d.NodesOut {
		if out.Reason == core.ReservedRoom {
			reserved = out.Nodes
		}
	}
	if reserved == 0 {
		return insufficient(nodes)
	}
	maps.DeleteFunc(nodes, func(_ string, n int) bool { return n <= reserved })
	for name := range nodes {
		nodes[name] -= reserved
	}
	return strings.TrimSuffix(fmt.Sprintf("%d node(s) %s, %s", reserved, core.ReservedRoom, insufficient(nodes)), ", ")
}

// insufficient returns a message with the number of nodes that lack each resource. The message has
// the same words as the message of the in-tree plugin NodeResourcesFit.
func insufficient(nodes map[string]int) string {
	reasons := make([]string, 0, len(nodes))
	for resource, n := range nodes {
		if resource == string(corev1.ResourcePods) {
			reasons = append(reasons, fmt.Sprintf("%d Too many pods", n))
		} else {
			reasons = append(reasons, fmt.Sprintf("%d Insufficient %s", n, resource))
		}
	}
	slices.Sort(reasons)
	return strings.Join(reasons, ", ")
}
