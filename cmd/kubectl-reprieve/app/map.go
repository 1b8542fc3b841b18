package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/manifest"
	"github.com/reprieve-dev/reprieve/internal/report"
	"github.com/reprieve-dev/reprieve/internal/whatif"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// mapping builds the map of a report page: the GPUs of each node, by workload.
type mapping struct {
	asked   *question
	parties map[string]report.Party
	out     *report.Map
	// nodes and works map the names of nodes and workloads to their indexes in the map out.
	nodes, works map[string]int
	// pods maps namespace/name of a pod to the pod's place in out.
	pods map[string]podPlace
}

// podPlace is the place of a pod in a map: the index of the node, and the index of the pod on the
// node.
type podPlace struct{ node, at int }

// mapOf returns the map of the GPUs by workload, with the changes that the planned manifests would
// make. It returns nil if no node has GPUs.
func (a *asking) mapOf(ctx context.Context, asked *question, parties map[string]report.Party, planned []manifest.Document) (*report.Map, error) {
	nodes, err := inventory.Decode[*corev1.Node](asked.objects, inventory.Nodes)
	if err != nil {
		return nil, err
	}
	pods, err := inventory.Decode[*corev1.Pod](asked.objects, inventory.Pods)
	if err != nil {
		return nil, err
	}
	m := &mapping{
		asked: asked, parties: parties, out: &report.Map{Resource: commonGPU(nodes), At: asked.objects.Taken.UnixMilli()},
		nodes: make(map[string]int), works: make(map[string]int), pods: make(map[string]podPlace),
	}
	if m.out.Resource == "" {
		return nil, nil //nolint:nilnil // That there is none is no error.
	}
	m.addNodes(nodes)
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			m.add(pod, pod.Spec.NodeName, m.nameOf(pod), "")
		}
	}
	if len(planned) > 0 {
		err = a.planOnMap(ctx, m, planned)
	}
	return m.out, err
}

// commonGPU returns the GPU resource with the largest total on the nodes. It returns "" if the
// nodes have no GPUs.
func commonGPU(nodes []*corev1.Node) string {
	total := make(map[string]int64)
	for _, node := range nodes {
		for name, quantity := range node.Status.Allocatable {
			if workload.IsGPU(string(name)) && quantity.Value() > 0 {
				total[string(name)] = fairshare.Add(total[string(name)], quantity.Value())
			}
		}
	}
	most := ""
	for name, n := range total {
		if most == "" || n > total[most] || n == total[most] && name < most {
			most = name
		}
	}
	return most
}

// addNodes adds the nodes that have the resource of the map, sorted by name.
func (m *mapping) addNodes(nodes []*corev1.Node) {
	nodes = slices.SortedFunc(slices.Values(nodes), func(x, y *corev1.Node) int { return cmp.Compare(x.Name, y.Name) })
	for _, node := range nodes {
		total := node.Status.Allocatable[corev1.ResourceName(m.out.Resource)]
		if total.Value() == 0 {
			continue
		}
		m.nodes[node.Name] = len(m.out.Nodes)
		m.out.Nodes = append(m.out.Nodes, report.MapNode{Name: node.Name, Total: total.Value(), Closed: node.Spec.Unschedulable})
	}
}

// nameOf returns the name of a pod's workload, in the format of happening.Victim.
func (m *mapping) nameOf(pod *corev1.Pod) string {
	if key, ok := m.asked.workloads().GroupOf(pod); ok {
		return unitName(key.Namespace, key.Name, true)
	}
	return unitName(pod.Namespace, pod.Name, false)
}

// add puts a pod on a node of the map. A pod that does not request the resource of the map is left
// out.
func (m *mapping) add(pod *corev1.Pod, node, work, change string) {
	at, known := m.nodes[node]
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	amount := requests[corev1.ResourceName(m.out.Resource)]
	if !known || amount.Value() == 0 {
		return
	}
	if pod.DeletionTimestamp != nil {
		change = report.MapGoes
	}
	n := &m.out.Nodes[at]
	m.pods[pod.Namespace+"/"+pod.Name] = podPlace{at, len(n.Pods)}
	n.Pods = append(n.Pods, report.MapPod{Name: pod.Name, Work: m.work(work, pod), Amount: amount.Value(), Change: change})
}

// work returns the index of a workload in the map. It adds the workload if the map lacks it.
func (m *mapping) work(name string, pod *corev1.Pod) int {
	at, known := m.works[name]
	if !known {
		at = len(m.out.Works)
		m.works[name] = at
		p := party(name, m.parties)
		m.out.Works = append(m.out.Works, report.MapWork{Namespace: p.Namespace, Name: p.Name, Group: p.Group, Priority: cmp.Or(p.Priority, pod.Spec.Priority), Queue: p.Queue})
	}
	return at
}

// planOnMap plans the manifests on the cluster of the map. It marks the pods that the scheduler
// would place and the pods that it would evict.
func (a *asking) planOnMap(ctx context.Context, m *mapping, documents []manifest.Document) error {
	namespace, err := a.namespace()
	if err != nil {
		return err
	}
	vary := manifest.Variation{Namespace: namespace, QueueLabel: queueLabel(m.asked.cfg)}
	submitted, err := manifest.Submit(ctx, m.asked.objects, m.asked.cfg, documents, vary)
	if err != nil {
		return err
	}
	results, err := whatif.Plan(ctx, submitted.Objects, m.asked.cfg, submitted.Workloads, nil)
	if err != nil {
		return err
	}
	for i := range results {
		m.plan(&results[i], &submitted.Workloads[i])
	}
	return nil
}

// plan records the result of planning one workload.
func (m *mapping) plan(r *whatif.Result, of *manifest.Workload) {
	pods := make(map[string]*corev1.Pod, len(of.Pods))
	for _, pod := range of.Pods {
		pods[pod.Name] = pod
	}
	said := report.MapPlan{Name: title(r), Outcome: outcomes(r), Pods: r.Pods, Placed: r.Placed, Evicted: r.Cost.Pods}
	work := unitName(r.Namespace, r.Name, of.Gang)
	if r.Kind == manifest.KindTree {
		work = groupName(gang.TreeKey(r.Namespace, r.Name))
	}
	for i := range r.Steps {
		step := &r.Steps[i]
		said.Message = cmp.Or(said.Message, step.Message)
		for _, v := range step.Victims {
			m.goes(v.Pods)
		}
		for _, place := range step.Placements {
			if pod := pods[place.Pod]; pod != nil {
				m.add(pod, place.Node, work, report.MapComes)
			}
		}
	}
	m.out.Plans = append(m.out.Plans, said)
}

// goes records that planned work would evict pods. If such a pod was itself planned earlier, goes
// sets its amount of GPUs to 0.
func (m *mapping) goes(pods []core.VictimPod) {
	for _, pod := range pods {
		place, ok := m.pods[pod.Namespace+"/"+pod.Name]
		if !ok {
			continue
		}
		on := &m.out.Nodes[place.node].Pods[place.at]
		if on.Change == report.MapComes {
			on.Amount = 0
		}
		on.Change = report.MapGoes
	}
}

// planFiles reads the manifests of --plan.
func (a *asking) planFiles(names []string) ([]manifest.Document, error) {
	var out []manifest.Document
	for _, name := range names {
		read, err := a.documents(name)
		if err != nil {
			return nil, usage(fmt.Errorf("--plan: %w", err))
		}
		out = append(out, read...)
	}
	return out, nil
}
