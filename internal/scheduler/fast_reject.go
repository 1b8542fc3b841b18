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

// unschedulable remembers what single pods have lately asked for in vain. To the next one that asks for as much it is told
// by arithmetic whether any node has room now: to ask all filters about every node takes long, and the longer the more
// pods are nominated, since each node with a nominated pod is copied for that. Only scheduling cycles use it. The zero
// value is ready to use.
type unschedulable struct {
	asks sets.Set[ask]
}

// ask is what one pod asks for.
type ask struct {
	milliCPU, memory, storage int64
	scalars                   string
}

// mostMisfits bounds what is remembered; past it, remembering starts over.
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

// fastReject decides for a pod before the filters are asked, where no node has room for it as things are. It returns nil
// where there may be room.
func (p *Plugin) fastReject(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) *fwk.Status {
	// One that has been promised room is as good as placed once the pods in its way have gone.
	promised := p.hub.reserved.Has(pod.UID) || pod.Status.NominatedNodeName != ""
	if len(p.unschedulable.asks) == 0 || promised && !p.hub.waits.WaitsForVictims(p.hub.keyOf(pod)) || !p.filtersResources() {
		return nil
	}
	a, err := askFor(pod)
	if err != nil || !p.unschedulable.asks.Has(a) {
		return nil
	}
	start, pre := p.hub.clock.Now(), p.podPreemptor(pod)
	classes, err := p.classesOf(&pre)
	if err != nil {
		return fwk.AsStatus(err)
	}
	v, err := p.look(&pre)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("decide for %s: %w", pre.key, err))
	}
	short, nowhere := v.Cluster.ShortOf(p.input(&pre, v, classes))
	if !nowhere || v.LacksResource() {
		if !promised {
			// What no node has may come from elsewhere, once a DeviceClass maps it: the filters know.
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

// noteUnschedulable takes note of a pod for which there was no room.
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

// filtersResources reports whether the profile minds the room on nodes at all.
func (p *Plugin) filtersResources() bool {
	for _, pl := range p.handle.ListPlugins().Filter.Enabled {
		if pl.Name == names.NodeResourcesFit {
			return true
		}
	}
	return false
}

// besideReserved is insufficient, but for the nodes whose room is enough by a decision, and
// reserved for others.
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

// insufficient says what nodes are short of, in the words of the filter that would have said so.
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
