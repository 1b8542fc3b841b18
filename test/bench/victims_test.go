package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// toll describes the victims of one decision. It is computed without code of Reprieve and upstream.
type toll struct {
	// victims is the number of evicted pods. workloads is the number of PodGroups and single pods
	// that lost a pod.
	victims, workloads int
	highest            int32
	// sum is the sum of the priorities of the evicted pods.
	sum int64
	// broken is the number of evicted pods beyond the disruptions that PodDisruptionBudgets allow.
	broken int
	placed int
}

func tollOf(o outcome, budgets []*policyv1.PodDisruptionBudget) toll {
	t := toll{victims: len(o.victims), placed: o.placed}
	workloads := sets.New[types.NamespacedName]()
	for i, pod := range o.victims {
		workloads.Insert(workload(pod))
		if t.sum += int64(*pod.Spec.Priority); i == 0 || *pod.Spec.Priority > t.highest {
			t.highest = *pod.Spec.Priority
		}
	}
	t.workloads = workloads.Len()
	for _, budget := range budgets {
		t.broken += max(0, covered(o.victims, budget)-int(budget.Status.DisruptionsAllowed))
	}
	return t
}

func covered(victims []*corev1.Pod, budget *policyv1.PodDisruptionBudget) int {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return 0
	}
	count := 0
	for _, pod := range victims {
		if selector.Matches(labels.Set(pod.Labels)) {
			count++
		}
	}
	return count
}

// compareTolls compares two tolls by the criteria of KEP-5710. The smaller toll is better.
func compareTolls(a, b toll) int {
	return cmp.Or(
		cmp.Compare(a.broken, b.broken), cmp.Compare(a.highest, b.highest), cmp.Compare(a.sum, b.sum), cmp.Compare(a.victims, b.victims))
}

// taking is a row of the table of victims. theirs has a toll for each decision of upstream:
// upstream's choice between equal nodes depends on the order in which goroutines finish.
type taking struct {
	victimScene
	nodes, pods, members, minCount int
	mine                           toll
	theirs                         []toll
	took, tookThem                 samples
}

func (x *taking) ratio() float64 {
	return float64(x.tookThem.percentile(50)) / float64(x.took.percentile(50))
}

// best returns the smallest toll of upstream's decisions.
func (x *taking) best() toll { return slices.MinFunc(x.theirs, compareTolls) }

func (s *sizes) measureVictims(t *testing.T, r *report) {
	for _, v := range append(victimScenes(), s.scenes...) {
		rounds := s.faceRounds
		if v.slow {
			rounds = max(1, rounds/4)
		}
		t.Run(strings.ReplaceAll(v.name, " ", "-"), func(t *testing.T) {
			nodes := cmp.Or(v.nodes, s.victims)
			row := takingOf(t, v, func() *scene { return v.make(nodes) }, rounds, s.laps)
			for _, got := range append([]toll{row.mine}, row.theirs...) {
				if got.placed < row.minCount {
					t.Errorf("A decision places %d members of at least %d", got.placed, row.minCount)
				}
			}
			if best := row.best(); compareTolls(best, row.mine) < 0 {
				t.Errorf("Upstream has chosen better: %+v, Reprieve %+v", best, row.mine)
			}
			r.takings = append(r.takings, row)
		})
	}
}

func takingOf(t *testing.T, v victimScene, of func() *scene, rounds, laps int) taking {
	t.Helper()
	sc := of()
	mine, theirs := face(t, of, rounds, laps)
	row := taking{
		victimScene: v, nodes: len(sc.nodes), pods: sc.pods(),
		members: len(sc.pending), minCount: int(sc.gang.Spec.SchedulingPolicy.Gang.MinCount),
		mine: tollOf(mine[0], sc.budgets), took: tookOf(mine), tookThem: tookOf(theirs),
	}
	for _, o := range mine {
		if got := tollOf(o, sc.budgets); got != row.mine {
			t.Errorf("Reprieve decides differently from one time to the next: %+v, %+v", got, row.mine)
		}
	}
	for _, o := range theirs {
		row.theirs = append(row.theirs, tollOf(o, sc.budgets))
	}
	return row
}

// writeVictims writes the table of victims.
func (r *report) writeVictims(b *strings.Builder) {
	b.WriteString(`
### Victims

Each row is the decision for one gang. *Victims* counts the evicted pods. *Workloads* counts the
PodGroups and single pods with at least one evicted pod. *Highest priority* is the highest priority
of a victim. *Over budget* counts the evictions beyond the allowance of a PodDisruptionBudget.
*Gang* describes the members, and ends with their number. *Placed* counts the members with a node.
*CPU p50* is the median CPU time of a decision. *Ratio* is upstream's CPU time divided by
Reprieve's.

`)
	row(b, "Cluster", "Gang", "Victims", "upstream", "Workloads", "upstream", "Highest priority", "upstream",
		"Over budget", "upstream", "Placed", "upstream", "n", "CPU p50", "upstream", "Ratio")
	rule(b, "l", "l", "r", "r", "r", "r", "r", "r", "r", "r", "r", "r", "r", "r", "r", "r")
	for i := range r.takings {
		x := &r.takings[i]
		theirs := func(of func(toll) int) string { return span(x.theirs, of) }
		gang := fmt.Sprintf("%s: %d", x.gang, x.members)
		if x.minCount < x.members {
			gang += fmt.Sprintf(", minCount %d", x.minCount)
		}
		row(b, fmt.Sprintf("**%s**: %s nodes, %s pods; %s", x.name, thousands(x.nodes), thousands(x.pods), x.cluster), gang,
			fmt.Sprint(x.mine.victims), theirs(func(t toll) int { return t.victims }),
			fmt.Sprint(x.mine.workloads), theirs(func(t toll) int { return t.workloads }),
			fmt.Sprint(x.mine.highest), theirs(func(t toll) int { return int(t.highest) }),
			fmt.Sprint(x.mine.broken), theirs(func(t toll) int { return t.broken }),
			fmt.Sprint(x.mine.placed), theirs(func(t toll) int { return t.placed }),
			fmt.Sprint(len(x.theirs)), duration(x.took.percentile(50)), duration(x.tookThem.percentile(50)), times(x.ratio()))
	}
}

// span returns the lowest and the highest value of a toll's field in upstream's decisions, as text.
func span(all []toll, of func(toll) int) string {
	values := make([]int, len(all))
	for i := range all {
		values[i] = of(all[i])
	}
	least, most := slices.Min(values), slices.Max(values)
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d–%d", least, most)
}

// times formats a ratio.
func times(ratio float64) string {
	switch {
	case ratio < 0.1:
		return fmt.Sprintf("%.4f×", ratio)
	case ratio < 10:
		return fmt.Sprintf("%.1f×", ratio)
	}
	return thousands(int(ratio)) + "×"
}
