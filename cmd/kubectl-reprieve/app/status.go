package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/whatif"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// statusAnswer is the answer of the subcommand status.
type statusAnswer struct {
	typed
	// Nodes is the number of schedulable nodes.
	Nodes int `json:"nodes"`
	// NodesOut is the number of nodes that are cordoned or not ready.
	NodesOut int `json:"nodesOut"`
	// Resources has the requested part of each resource on the schedulable nodes.
	Resources []fullness `json:"resources"`
	// Of is the resource that Largest is about: GPUs, or CPUs if no node has GPUs.
	Of string `json:"of,omitempty"`
	// Largest has, for pods that request 1, 2, 4 and so on units of Of, the number of such pods
	// that fit on the nodes now.
	Largest []largestGang `json:"largest"`
	// Waiting is the number of pending workloads.
	Waiting int `json:"waiting"`
	// Degraded is the number of gangs that occupy nodes with fewer members than they need.
	Degraded int `json:"degraded"`
	// Leader is the leading scheduler; nil if it is not known.
	Leader *leader `json:"leader,omitempty"`
	// LeaderUnknown is the reason why the leader is not known.
	LeaderUnknown string `json:"leaderUnknown,omitempty"`
}

// fullness describes the requested part of a resource. Percent is Requested in percent of
// Allocatable.
type fullness struct {
	Resource    string  `json:"resource"`
	Requested   string  `json:"requested"`
	Allocatable string  `json:"allocatable"`
	Percent     float64 `json:"percent"`
}

// largestGang is the number of pods of one size that fit on the nodes at the same time.
type largestGang struct {
	Size int64 `json:"size"`
	Pods int64 `json:"pods"`
}

// leader describes the scheduler that holds the Lease of leader election.
type leader struct {
	Name    string    `json:"name"`
	Renewed time.Time `json:"renewed"`
	Since   time.Time `json:"since,omitzero"`
	// Well is true if the leader renewed the Lease within its duration.
	Well bool `json:"well"`
}

func (a *asking) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how full the cluster is, the largest gang that fits, and whether the scheduler is well",
		Long: `Show how much of each resource is requested on the nodes that take pods; the largest gang that fits as things are, for pods of
several sizes, going by the GPUs (or the CPU) of nodes alone; how many workloads wait and how many gangs are short of members;
and which scheduler leads, by its Lease. To read that takes the right to get leases.coordination.k8s.io.`,
		Example: "  kubectl reprieve status",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			shown := newProgress(a.streams.ErrOut, a.clock)
			answer, err := a.status(cmd.Context(), shown)
			shown.end()
			if err != nil {
				return err
			}
			return a.write(answer, func(to io.Writer, _ bool) error { return a.showStatus(to, answer) })
		},
	}
}

func (a *asking) status(ctx context.Context, shown *progress) (*statusAnswer, error) {
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return nil, err
	}
	answer := &statusAnswer{typed: typed{APIVersion: answerVersion, Kind: "Status", Taken: asked.objects.Taken.UTC()}, Resources: []fullness{}, Largest: []largestGang{}}
	if err := answer.fill(asked.objects); err != nil {
		return nil, err
	}
	cluster, err := whatif.New(ctx, asked.objects, asked.cfg)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	profiles := profilesOf(asked.cfg)
	for _, w := range cluster.Workloads() {
		if _, waits := rowOfWaiting(&w, nil, profiles); waits {
			answer.Waiting++
		}
		if _, short := rowOfDegraded(&w); short {
			answer.Degraded++
		}
	}
	if a.snapshot == "" {
		answer.Leader, answer.LeaderUnknown = a.leader(ctx, asked.cfg)
	}
	return answer, nil
}

// isOut reports whether a node is cordoned or not ready.
func isOut(node *corev1.Node) bool {
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
	return node.Spec.Unschedulable || ready
}

// fill fills in the fields that depend on nodes and pods: Nodes, NodesOut, Resources, Of and
// Largest.
func (s *statusAnswer) fill(objects *inventory.Inventory) error {
	nodes, err := inventory.Decode[*corev1.Node](objects, inventory.Nodes)
	if err != nil {
		return err
	}
	pods, err := inventory.Decode[*corev1.Pod](objects, inventory.Pods)
	if err != nil {
		return err
	}
	free, all := make(map[string]corev1.ResourceList), make(corev1.ResourceList)
	for _, node := range nodes {
		if isOut(node) {
			s.NodesOut++
			continue
		}
		s.Nodes++
		free[node.Name] = node.Status.Allocatable.DeepCopy()
		addTo(all, node.Status.Allocatable)
	}
	used := make(corev1.ResourceList)
	for _, pod := range pods {
		on, has := free[pod.Spec.NodeName]
		if !has || isOver(pod) {
			continue
		}
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		addTo(used, requests)
		for name, quantity := range requests {
			left := on[name]
			left.Sub(quantity)
			on[name] = left
		}
	}
	s.Resources = fullnessOf(all, used)
	s.largest(free, all)
	return nil
}

func addTo(sums, more corev1.ResourceList) {
	for name, quantity := range more {
		sum := sums[name]
		sum.Add(quantity)
		sums[name] = sum
	}
}

// fullnessOf returns the requested part of CPUs, memory and extended resources. The argument all is
// the allocatable amount, and used is the requested amount. GPUs come first in the result.
func fullnessOf(all, used corev1.ResourceList) []fullness {
	var names []string
	for name := range all {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.Contains(string(name), "/") {
			names = append(names, string(name))
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if workload.IsGPU(a) != workload.IsGPU(b) {
			if workload.IsGPU(a) {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	out := make([]fullness, 0, len(names))
	for _, name := range names {
		total, taken := all[corev1.ResourceName(name)], used[corev1.ResourceName(name)]
		if total.IsZero() {
			continue
		}
		out = append(out, fullness{
			Resource: name, Requested: human(name, &taken), Allocatable: human(name, &total), Percent: 100 * taken.AsApproximateFloat64() / total.AsApproximateFloat64(),
		})
	}
	return out
}

func human(name string, q *resource.Quantity) string {
	return queue.Human(corev1.ResourceName(name), q.AsApproximateFloat64())
}

// largest fills in Of and Largest. free has the free resources of each node, and all is the sum
// over the nodes.
func (s *statusAnswer) largest(free map[string]corev1.ResourceList, all corev1.ResourceList) {
	s.Of = string(corev1.ResourceCPU)
	for _, r := range s.Resources {
		if workload.IsGPU(r.Resource) {
			s.Of = r.Resource
			break
		}
	}
	if _, has := all[corev1.ResourceName(s.Of)]; !has {
		return
	}
	for size := int64(1); ; size *= 2 {
		sum, possible := int64(0), false
		for _, on := range free {
			left := on[corev1.ResourceName(s.Of)]
			sum += max(int64(left.AsApproximateFloat64()), 0) / size
			possible = possible || left.AsApproximateFloat64() >= float64(size)
		}
		if size > 1 && !possible {
			return
		}
		s.Largest = append(s.Largest, largestGang{size, sum})
	}
}

// leader reads the Lease of the scheduler. If it cannot, it returns the reason.
func (a *asking) leader(ctx context.Context, cfg *config.KubeSchedulerConfiguration) (*leader, string) {
	rest, err := a.kube.ToRESTConfig()
	if err != nil {
		return nil, oneLine(err)
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, oneLine(err)
	}
	namespace, name := cfg.LeaderElection.ResourceNamespace, cfg.LeaderElection.ResourceName
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Sprintf("lease %s/%s: %s", namespace, name, oneLine(err))
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.RenewTime == nil {
		return nil, fmt.Sprintf("nobody holds the lease %s/%s", namespace, name)
	}
	out := &leader{Name: *lease.Spec.HolderIdentity, Renewed: lease.Spec.RenewTime.UTC()}
	if lease.Spec.AcquireTime != nil {
		out.Since = lease.Spec.AcquireTime.UTC()
	}
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil {
		out.Well = a.clock.Since(out.Renewed) <= time.Duration(*seconds)*time.Second
	}
	return out, ""
}

func (a *asking) showStatus(to io.Writer, answer *statusAnswer) error {
	out := ""
	if answer.NodesOut > 0 {
		out = fmt.Sprintf(", and %d cordoned or not ready", answer.NodesOut)
	}
	fmt.Fprintf(to, "%s that take pods%s\n\n", plural(answer.Nodes, "node"), out)
	rows := [][]string{{"RESOURCE", "REQUESTED", "ALLOCATABLE", "FULL"}}
	for _, r := range answer.Resources {
		rows = append(rows, []string{r.Resource, r.Requested, r.Allocatable, fmt.Sprintf("%.0f%%", r.Percent)})
	}
	if err := table(to, rows); err != nil {
		return err
	}
	var parts []string
	for _, l := range answer.Largest {
		parts = append(parts, fmt.Sprintf("%s of %d", plural(int(l.Pods), "pod"), l.Size))
	}
	if len(parts) > 0 {
		fmt.Fprintf(to, "\nLargest gang that fits, by %s alone: %s.\n", answer.Of, strings.Join(parts, ", or "))
	}
	fmt.Fprintf(to, "Waiting: %s. Gangs that hold nodes below minCount: %s.\n", plural(answer.Waiting, "workload"), strconv.Itoa(answer.Degraded))
	switch l := answer.Leader; {
	case l == nil && answer.LeaderUnknown == "":
		fmt.Fprintln(to, "Scheduler: leader not known")
	case l == nil:
		fmt.Fprintf(to, "Scheduler: leader not known: %s\n", answer.LeaderUnknown)
	case l.Well:
		fmt.Fprintf(to, "Scheduler: %s leads since %s, and renewed its lease at %s.\n", l.Name, l.Since.Format(time.RFC3339), l.Renewed.Format(time.RFC3339))
	default:
		fmt.Fprintf(to, "Scheduler: %s; %s led, and has not renewed its lease since %s.\n", a.paint(bad, "nobody leads"), l.Name, l.Renewed.Format(time.RFC3339))
	}
	return nil
}
