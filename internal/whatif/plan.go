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

// Held is the outcome of a workload that is not decided on, beside those of core.
const Held core.Outcome = "Held"

// Result is what would become of one workload.
type Result struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Part tells the gangs of one object apart: a replica, a role, or both.
	Part string `json:"part,omitempty"`
	// Pods is how many it has, and Placed how many of them would have a node.
	Pods   int `json:"pods"`
	Placed int `json:"placed"`
	// Steps are the decisions: one for a gang, one for each pod of anything else.
	Steps []Step `json:"steps"`
	// Cost is that of all victims.
	Cost Cost `json:"cost"`
}

// Step is one decision.
type Step struct {
	// Pods are the names of those that it is for.
	Pods    []string     `json:"pods"`
	Outcome core.Outcome `json:"outcome"`
	// Reason is a word for why a workload is held.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Placements say where the pods go.
	Placements []Placement `json:"placements,omitempty"`
	Victims    []Victim    `json:"victims,omitempty"`
	Cost       Cost        `json:"cost"`
	// RetryAt is when protections have ended that are in the way; absent where time is no help.
	RetryAt *time.Time `json:"retryAt,omitempty"`
	// Protected are units that stay although they would make room, with what protects them, and until when; NodesOut counts
	// the nodes that are out whatever pods go.
	Protected []core.ProtectedUnit `json:"protected,omitempty"`
	NodesOut  []core.ReasonCount   `json:"nodesOut,omitempty"`

	// leaving are the pods on their way out that it counts on to go.
	leaving []*corev1.Pod
}

// Placement is where one pod goes.
type Placement struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// OrLike are the other nodes that the scheduler likes as well: it takes any of them.
	OrLike []string `json:"orLike,omitempty"`
}

// Victim is a unit that would go.
type Victim struct {
	core.Victim
	Cost Cost `json:"cost"`
}

// HasRoom reports whether all pods of the result would have a node.
func (r *Result) HasRoom() bool { return r.Placed == r.Pods }

// Plan says what would become of workloads, one after the other: each is decided on as the one before would leave the cluster, once
// its victims have gone. Told is called before each decision with how many there have been; it may be nil.
func Plan(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, workloads []manifest.Workload, told func(decided int)) ([]Result, error) {
	p := &planning{objects: objects, cfg: cfg, told: told}
	out := make([]Result, 0, len(workloads))
	for i := range workloads {
		w := &workloads[i]
		result := Result{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Part: w.Part, Pods: len(w.Pods)}
		for _, pods := range turns(w) {
			step, err := p.decide(ctx, pods, w.Gang)
			if err != nil {
				return nil, fmt.Errorf("%s %s/%s: %w", w.Kind, w.Namespace, w.Name, err)
			}
			result.Steps = append(result.Steps, step)
			result.Placed += len(step.Placements)
			result.Cost.Add(step.Cost)
		}
		out = append(out, result)
	}
	return out, nil
}

// turns are the pods of a workload that are decided on together.
func turns(w *manifest.Workload) [][]*corev1.Pod {
	if w.Gang {
		return [][]*corev1.Pod{w.Pods}
	}
	return slices.Collect(slices.Chunk(w.Pods, 1))
}

// planning is a Plan under way.
type planning struct {
	objects *inventory.Inventory
	cfg     *config.KubeSchedulerConfiguration
	told    func(int)
	decided int
}

// decide adds pods that are decided on together, and has the objects be as the decision would leave them.
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
	if !together || len(step.Pods) == 0 {
		step.Pods = namesOf(pods)
	}
	p.objects, err = after(with, cluster, &step, pods[0].Namespace)
	return step, err
}

// Decide says what would become of a pending pod, or of its gang, as things are.
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

// ranked has a single pod that fits be where the scheduler likes best.
func (c *Cluster) ranked(ctx context.Context, key types.NamespacedName, step Step) (Step, error) {
	pod, _ := c.Pod(key)
	best, refusedBy, err := c.bestNodes(ctx, pod)
	switch {
	case err != nil:
		return Step{}, err
	case refusedBy != "":
		// A decision leaves to the cycle what may come to suit an extender. Such a cycle ends in vain, and takes nothing from others.
		step.Outcome, step.Placements = core.Infeasible, nil
		step.Message = fmt.Sprintf("extender %s refuses every node that has room for it", refusedBy)
	case len(best) > 0:
		step.Placements = []Placement{{Pod: key.Name, Node: best[0], OrLike: best[1:]}}
		step.Message = "pod fits on " + best[0]
	}
	return step, nil
}

// timeOf is a moment of the core's; nil for none.
func timeOf(nanoseconds int64) *time.Time {
	if nanoseconds == 0 {
		return nil
	}
	at := time.Unix(0, nanoseconds).UTC()
	return &at
}

// describe copies what a decision says.
func (c *Cluster) describe(step *Step, preview *scheduler.Preview) {
	d := preview.Decision
	step.Outcome, step.Message, step.Protected, step.NodesOut = d.Outcome, d.Message, d.ProtectedUnits, d.NodesOut
	step.RetryAt, step.leaving = timeOf(d.RetryAt), preview.Leaving
	if preview.Limited && d.Outcome == core.Fits {
		// It fits, but for a limit that those use up who are on their way out.
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
		step.Cost.Add(v.Cost)
		step.Victims = append(step.Victims, v)
	}
}

// after is the inventory once a decision has been carried out: its victims, and those on their way out that it counts on to go, have
// gone, and its pods are on their nodes.
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

// onNode is a pod as the API server has it once it is bound.
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
