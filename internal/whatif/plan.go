package whatif

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/manifest"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// Held is the outcome of a workload that is blocked before any decision. The other outcomes are
// defined by package core.
const Held core.Outcome = "Held"

// Result is the planned outcome for one workload.
type Result struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Part distinguishes several gangs of one object: it has the replica, the role, or both.
	Part string `json:"part,omitempty"`
	// Pods is the number of the workload's pods. Placed is the number of these pods that would get
	// a node.
	Pods   int `json:"pods"`
	Placed int `json:"placed"`
	// Steps has the decisions: one for a gang, otherwise one for each pod.
	Steps []Step `json:"steps"`
	// Cost is the cost of all victims of all steps.
	Cost Cost `json:"cost"`
}

// Step is one decision.
type Step struct {
	// Pods has the names of the pods that the decision is for.
	Pods    []string     `json:"pods"`
	Outcome core.Outcome `json:"outcome"`
	// Reason is the cause as one word if the workload is blocked.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Placements has the node of each placed pod.
	Placements []Placement `json:"placements,omitempty"`
	Victims    []Victim    `json:"victims,omitempty"`
	// BrokenGangs has the gangs that fall below minCount, each with the lost work of its members
	// that are not victims.
	BrokenGangs []core.GangRef `json:"brokenGangs,omitempty"`
	Cost        Cost           `json:"cost"`
	// ByPriority is the cost of the victims that would be chosen by priorities alone. It is nil if
	// these are the same victims; see [ByPriorityAlone].
	ByPriority *Cost `json:"byPriority,omitempty"`
	// Cascade has the evictions that replacements of the victims would cause. It is nil if the
	// profile does not evaluate them.
	Cascade *core.Cascade `json:"cascade,omitempty"`
	// RetryAt is the time when the protections that block the workload have ended. It is nil if the
	// workload stays blocked regardless of time.
	RetryAt *time.Time `json:"retryAt,omitempty"`
	// Protected has the protected units whose eviction would help, each with the rule and the end
	// of its protection.
	Protected []core.ProtectedUnit `json:"protected,omitempty"`
	// NodesOut has the numbers of nodes that are unsuitable regardless of evictions, by reason.
	NodesOut []core.ReasonCount `json:"nodesOut,omitempty"`
	// Domain and Levels describe a gang's choice of topology domains. DomainNotes describes the
	// domains, one per line.
	Domain      *core.DomainChoice `json:"domain,omitempty"`
	Levels      []core.LevelChoice `json:"levels,omitempty"`
	DomainNotes []string           `json:"domainNotes,omitempty"`

	// decision is the decision itself; nil for a workload that is blocked before any decision.
	decision *core.Decision
	// leaving has the terminating pods whose room the decision uses. maxGrace is the longest grace
	// period that a victim gets.
	leaving  []*corev1.Pod
	maxGrace time.Duration
}

// Placement is a pod with its node.
type Placement struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// OrLike has the other nodes with the same score. The scheduler may choose any of them in place
	// of Node.
	OrLike []string `json:"orLike,omitempty"`
}

// Victim is a unit that would be evicted.
type Victim struct {
	core.Victim
	Cost Cost `json:"cost"`
}

// HasRoom reports whether all pods of the workload would get a node.
func (r *Result) HasRoom() bool { return r.Placed == r.Pods }

// Plan returns the outcomes for workloads in their order. Each decision is made on the cluster
// after the previous decision, when the victims of the previous decision have ended. Before each
// decision, Plan calls told with the number of earlier decisions; told may be nil.
func Plan(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, workloads []manifest.Workload, told func(decided int)) ([]Result, error) {
	p := &planning{objects: objects, cfg: cfg, told: told}
	out := make([]Result, 0, len(workloads))
	for i := range workloads {
		w := &workloads[i]
		result := Result{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Part: w.Part, Pods: len(w.Pods)}
		for _, pods := range turns(w) {
			for len(pods) > 0 {
				step, err := p.decide(ctx, pods, w.Gang)
				if err != nil {
					return nil, fmt.Errorf("%s %s/%s: %w", w.Kind, w.Namespace, w.Name, err)
				}
				result.Steps = append(result.Steps, step)
				result.Placed += len(step.Placements)
				result.Cost.Add(step.Cost)
				pods = further(w, pods, &step)
			}
		}
		out = append(out, result)
	}
	return out, nil
}

// turns divides the pods of a workload into sets, with one decision for each set.
func turns(w *manifest.Workload) [][]*corev1.Pod {
	if w.Gang {
		return [][]*corev1.Pod{w.Pods}
	}
	return slices.Collect(slices.Chunk(w.Pods, 1))
}

// further returns the pods of a tree that need another decision. A decision places only the groups
// that the tree needs, and each other group has its own decision. further returns nil for workloads
// other than trees.
func further(w *manifest.Workload, pods []*corev1.Pod, step *Step) []*corev1.Pod {
	if w.Kind != manifest.KindTree || len(step.Placements) == 0 {
		return nil
	}
	placed := make(map[string]bool, len(step.Placements))
	for _, place := range step.Placements {
		placed[place.Pod] = true
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return placed[pod.Name] })
}

// planning is the state of a call of Plan.
type planning struct {
	objects *inventory.Inventory
	cfg     *config.KubeSchedulerConfiguration
	told    func(int)
	decided int
}

// decide makes a decision for pods and changes the objects to the state after it.
func (p *planning) decide(ctx context.Context, pods []*corev1.Pod, together bool) (Step, error) {
	if p.told != nil {
		p.told(p.decided)
	}
	p.decided++
	with, err := p.objects.With(podChanges(pods)...)
	if err != nil {
		return Step{}, err
	}
	p.objects = with
	cluster, err := New(ctx, with, p.cfg)
	if err != nil {
		return Step{}, err
	}
	defer cluster.Close()
	step, err := cluster.Decide(ctx, keyOf(pods[0]))
	if err != nil {
		return Step{}, err
	}
	if step.ByPriority, err = ByPriorityAlone(ctx, with, p.cfg, keyOf(pods[0]), pods[0].Spec.SchedulerName, &step); err != nil {
		return Step{}, err
	}
	if !together || len(step.Pods) == 0 {
		step.Pods = namesOf(pods)
	}
	p.objects, err = after(with, cluster, &step, pods[0].Namespace)
	return step, err
}

// Decide returns the decision for a pending pod, or for its gang, in the current state of the
// Cluster.
func (c *Cluster) Decide(ctx context.Context, key types.NamespacedName) (Step, error) {
	preview, err := c.Preview(ctx, key)
	var notOurs *NotOursError
	if errors.As(err, &notOurs) {
		return Step{Outcome: Held, Reason: "OtherScheduler", Message: notOurs.Error(), Pods: []string{key.Name}}, nil
	}
	if err != nil {
		return Step{}, err
	}
	step := Step{Pods: namesOf(preview.Pods)}
	if preview.Decision == nil {
		step.Outcome, step.Reason, step.Message = Held, preview.Held.Reason, preview.Held.Message
		step.RetryAt, step.Protected = timeOf(preview.RetryAt), preview.Protected
		return step, nil
	}
	c.describe(&step, &preview)
	if step.Outcome == core.Infeasible {
		step.Protected = c.complete(step.Protected, preview.Pods)
		if err := c.byHelp(step.Protected, preview.Pods); err != nil {
			return Step{}, err
		}
	}
	if step.Outcome == core.Fits && !preview.Decision.Preemptor.Gang {
		return c.ranked(ctx, key, step)
	}
	return step, nil
}

// ranked replaces the node in the placement of a single pod that fits. The new node is the node
// that the scheduler would score highest.
func (c *Cluster) ranked(ctx context.Context, key types.NamespacedName, step Step) (Step, error) {
	pod, _ := c.Pod(key)
	best, refusedBy, err := c.bestNodes(ctx, pod)
	switch {
	case err != nil:
		return Step{}, err
	case refusedBy != "":
		// The decision did not ask this extender, because its rejection of a node may change later.
		// In a real scheduling cycle, the extender would reject all nodes, and no pod would be
		// evicted.
		step.Outcome, step.Placements = core.Infeasible, nil
		step.Message = fmt.Sprintf("extender %s refuses every node that has room for it", refusedBy)
	case len(best) > 0:
		step.Placements = []Placement{{Pod: key.Name, Node: best[0], OrLike: best[1:]}}
		step.Message = "pod fits on " + best[0]
	}
	return step, nil
}

// timeOf converts nanoseconds since 1970 to a time. It returns nil for 0.
func timeOf(nanoseconds int64) *time.Time {
	if nanoseconds == 0 {
		return nil
	}
	at := time.Unix(0, nanoseconds).UTC()
	return &at
}

// describe copies a decision into a step.
func (c *Cluster) describe(step *Step, preview *scheduler.Preview) {
	d := preview.Decision
	step.decision = d
	step.Outcome, step.Message, step.Protected, step.NodesOut = d.Outcome, d.Message, d.ProtectedUnits, d.NodesOut
	step.Domain, step.Levels, step.DomainNotes = d.Domain, d.Levels, core.DomainNotes(d)
	step.RetryAt, step.leaving, step.maxGrace = timeOf(d.RetryAt), preview.Leaving, c.shared.MaxGracePeriod()
	if preview.Limited && d.Outcome == core.Fits {
		// The nodes have room, but terminating pods still count towards the limit of the queue.
		step.Outcome = core.Waits
	}
	for _, place := range d.Placements {
		step.Placements = append(step.Placements, Placement{Pod: place.Member, Node: place.Node})
	}
	pods := make(map[string]*corev1.Pod, len(preview.Victims))
	for _, pod := range preview.Victims {
		pods[string(pod.UID)] = pod
	}
	for _, unit := range d.Victims {
		v := Victim{Victim: unit}
		for _, pod := range unit.Pods {
			if p, ok := pods[pod.UID]; ok {
				v.Cost.Add(costOf(p, c.objects.Taken))
			}
		}
		if unit.Group {
			v.Cost.Groups = 1
		}
		v.Cost.LostDeviceHours = core.DeviceHours(unit.LostWork)
		step.Cost.Add(v.Cost)
		step.Victims = append(step.Victims, v)
	}
	step.BrokenGangs, step.Cascade = d.BrokenGangs, d.Cascade
	for i := range d.BrokenGangs {
		step.Cost.LostDeviceHours += core.DeviceHours(d.BrokenGangs[i].LostWork)
	}
}

// after returns the inventory after a decision has been carried out. The placed pods are on their
// nodes. The victims, and the terminating pods whose room is used, have been deleted.
func after(objects *inventory.Inventory, cluster *Cluster, step *Step, namespace string) (*inventory.Inventory, error) {
	if len(step.Placements) == 0 {
		return objects, nil
	}
	gone := make(map[types.UID]bool)
	for _, v := range step.Victims {
		for _, pod := range v.Pods {
			gone[types.UID(pod.UID)] = true
		}
	}
	for _, pod := range step.leaving {
		gone[pod.UID] = true
	}
	var placed []*corev1.Pod
	for _, place := range step.Placements {
		pod, ok := cluster.Pod(types.NamespacedName{Namespace: namespace, Name: place.Pod})
		if !ok {
			return nil, fmt.Errorf("the decision names pod %s/%s, which there is not", namespace, place.Pod)
		}
		placed = append(placed, onNode(pod, place.Node, objects.Taken))
	}
	return objects.Without(inventory.Pods, gone).With(podChanges(placed)...)
}

// onNode returns a copy of a pod as it is in the API after it is bound to the node.
func onNode(pod *corev1.Pod, node string, now time.Time) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	pod.Status.NominatedNodeName = ""
	at := metav1.NewTime(now)
	pod.Status.StartTime = &at
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at,
	})
	return pod
}

func podChanges(pods []*corev1.Pod) []inventory.Change {
	out := make([]inventory.Change, len(pods))
	for i, pod := range pods {
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		out[i] = inventory.Change{Resource: inventory.Pods, Object: pod}
	}
	return out
}

func keyOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func namesOf(pods []*corev1.Pod) []string {
	out := make([]string, len(pods))
	for i, pod := range pods {
		out[i] = pod.Name
	}
	return out
}
