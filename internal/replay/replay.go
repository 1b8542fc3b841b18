package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// State is the result of comparing a repeated decision with the logged one.
type State string

const (
	// Same means that outcome, victims and nodes are the same.
	Same State = "Same"
	// Differs means that the outcome, the victims or the nodes differ.
	Differs State = "Differs"
	// Unknown means that the decision cannot be repeated.
	Unknown State = "Unknown"
)

// Answer has a logged decision and its repetition.
type Answer struct {
	Time      time.Time `json:"time"`
	Process   string    `json:"process"`
	Sequence  uint64    `json:"sequence"`
	Preemptor Preemptor `json:"preemptor"`
	State     State     `json:"state"`
	// Why describes the difference for Differs, and the reason for Unknown. It is empty for Same.
	Why string `json:"why,omitempty"`
	// Then is the logged decision.
	Then Choice `json:"then"`
	// Now is the repeated decision. It is nil for Unknown.
	Now *Choice `json:"now,omitempty"`
}

// Preemptor names the workload of a decision.
type Preemptor struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Gang      bool   `json:"gang"`
}

// Choice is the result of a decision.
type Choice struct {
	Outcome core.Outcome `json:"outcome"`
	// Reason is the reason in one word if the workload is blocked, so that no decision was made.
	Reason  string   `json:"reason,omitempty"`
	Message string   `json:"message"`
	Victims []Victim `json:"victims,omitempty"`
	// Nodes maps the name of each placed pod to its node.
	Nodes map[string]string `json:"nodes,omitempty"`
}

// Victim is an evicted unit. Rule is the rule that permits the eviction.
type Victim struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       string    `json:"uid"`
	Group     bool      `json:"group"`
	Rule      core.Rule `json:"rule"`
	Pods      int       `json:"pods"`
}

// Options are the settings of a replay.
type Options struct {
	// Config returns the scheduler configuration to use. objects may contain the recorded
	// configuration.
	Config func(ctx context.Context, objects *inventory.Inventory) (*config.KubeSchedulerConfiguration, error)
	// Cluster is used for decisions whose inputs are not in the log. It may be nil.
	Cluster *inventory.Inventory
	// Told is called after each decision with the number of completed decisions. It may be nil.
	Told func(done int)
}

// Versions returns the versions of the schedulers that wrote the log. It omits schedulers that
// recorded no version.
func (l *Log) Versions() []string {
	found := make(map[string]bool)
	for i := range l.inputs {
		if whole := l.inputs[i].Whole; whole != nil {
			found[whole.Version] = true
		}
	}
	delete(found, "")
	return slices.Sorted(maps.Keys(found))
}

// Replay repeats all decisions of the log. The answers are in the order of the decisions.
func (l *Log) Replay(ctx context.Context, o Options) ([]Answer, error) {
	records := l.inOrder()
	at := make(map[where][]int)
	answers := make([]Answer, len(records))
	for i, r := range records {
		answers[i] = answerOf(r)
		at[where{r.Process, r.Inputs}] = append(at[where{r.Process, r.Inputs}], i)
	}
	var mu sync.Mutex
	done := 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	again := func(i int, objects *inventory.Inventory) {
		group.Go(func() error {
			err := answers[i].decide(ctx, records[i], objects, &o)
			mu.Lock()
			defer mu.Unlock()
			if done++; o.Told != nil {
				o.Told(done)
			}
			return err
		})
	}
	if err := l.clusters(records, at, again); err != nil {
		return nil, errors.Join(err, group.Wait())
	}
	if o.Cluster != nil {
		for _, left := range at {
			for _, i := range left {
				again(i, o.Cluster.At(nowOf(records[i])))
			}
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return answers, nil
}

// where identifies a line of the log by its process and number.
type where struct {
	process string
	number  uint64
}

// clusters restores the clusters of the log one after the other. The map at has, for each line, the
// indexes of the decisions whose inputs end with that line. For each of these decisions, clusters
// calls again(i, objects) with the decision's index and cluster. It then deletes the line's entry
// in at. In the end, at has only decisions whose cluster is unknown.
func (l *Log) clusters(records []*decisionlog.Record, at map[where][]int, again func(i int, objects *inventory.Inventory)) error {
	streams := l.streams()
	for _, process := range slices.Sorted(maps.Keys(streams)) {
		s := &state{}
		for _, in := range streams[process] {
			if err := s.next(in); err != nil {
				l.pass(err.Error())
			}
			if s.objects == nil || s.number != in.Number {
				continue
			}
			key := where{process, in.Number}
			for _, i := range at[key] {
				objects, err := s.at(nowOf(records[i]))
				if err != nil {
					return err
				}
				again(i, objects)
			}
			delete(at, key)
		}
	}
	return nil
}

// nowOf returns the current time that the decision used.
func nowOf(r *decisionlog.Record) time.Time {
	if now := r.Decision.Preemptor.Now; now != 0 {
		return time.Unix(0, now)
	}
	return r.Time
}

// answerOf returns the answer for a decision that is not repeated yet.
func answerOf(r *decisionlog.Record) Answer {
	d := &r.Decision
	out := Answer{
		Time: r.Time, Process: r.Process, Sequence: r.Sequence, State: Unknown, Why: "the log has no line for the cluster that it went by",
		Preemptor: Preemptor{Namespace: d.Preemptor.Namespace, Name: d.Preemptor.Name, Gang: d.Preemptor.Gang},
		Then:      Choice{Outcome: d.Outcome, Message: d.Message},
	}
	if r.Inputs == 0 {
		out.Why = "it was recorded without the cluster that it went by"
	}
	for i := range d.Victims {
		out.Then.Victims = append(out.Then.Victims, victimOf(&d.Victims[i]))
	}
	for _, place := range d.Placements {
		out.Then.place(place.Member, place.Node)
	}
	return out
}

func victimOf(v *core.Victim) Victim {
	return Victim{Namespace: v.Namespace, Name: v.Name, UID: v.UID, Group: v.Group, Rule: v.Rule, Pods: len(v.Pods)}
}

func (c *Choice) place(pod, node string) {
	if c.Nodes == nil {
		c.Nodes = make(map[string]string)
	}
	c.Nodes[pod] = node
}

// decide repeats the decision with the objects and stores the result.
func (a *Answer) decide(ctx context.Context, r *decisionlog.Record, objects *inventory.Inventory, o *Options) error {
	cfg, err := o.Config(ctx, objects)
	if err != nil {
		return err
	}
	if objects, err = prioritized(objects, &r.Decision.Preemptor); err != nil {
		return err
	}
	cluster, err := whatif.New(ctx, objects, cfg)
	if err != nil {
		return fmt.Errorf("the cluster of decision %d of %s: %w", r.Sequence, r.Process, err)
	}
	defer cluster.Close()
	pod, why := preemptorIn(cluster, r)
	if pod == nil {
		a.Why = why
		return nil
	}
	step, err := cluster.Decide(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		a.Why = fmt.Sprintf("it cannot be decided: %v", err)
		return nil
	}
	now := choiceOf(&step)
	a.Now = &now
	a.compare()
	return nil
}

// preemptorIn returns a pending pod of the decision's workload. It prefers pods without scheduling
// gates. If there is no pending pod, it returns nil and the reason.
func preemptorIn(cluster *whatif.Cluster, r *decisionlog.Record) (pod *corev1.Pod, why string) {
	p := &r.Decision.Preemptor
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	if !p.Gang {
		pod, ok := cluster.Pod(key)
		if !ok || string(pod.UID) != p.UID {
			return nil, fmt.Sprintf("pod %s is not among the objects", key)
		}
		return pod, ""
	}
	if g, ok := cluster.Groups().Group(key); !ok || string(g.UID) != p.UID {
		return nil, fmt.Sprintf("PodGroup %s is not among the objects", key)
	}
	for _, member := range cluster.Members(key) {
		switch {
		case member.Spec.NodeName != "" || member.DeletionTimestamp != nil || member.Spec.SchedulerName != r.Profile:
		case len(member.Spec.SchedulingGates) == 0:
			return member, ""
		case pod == nil:
			pod = member
		}
	}
	if pod == nil {
		return nil, fmt.Sprintf("PodGroup %s has no member without a node among the objects", key)
	}
	return pod, ""
}

func choiceOf(step *whatif.Step) Choice {
	out := Choice{Outcome: step.Outcome, Reason: step.Reason, Message: step.Message}
	for i := range step.Victims {
		out.Victims = append(out.Victims, victimOf(&step.Victims[i].Victim))
	}
	for _, place := range step.Placements {
		out.place(place.Pod, place.Node)
	}
	return out
}

// compare sets State and Why by comparing Then and Now.
func (a *Answer) compare() {
	a.State, a.Why = Differs, ""
	uids := func(c *Choice) []string {
		out := make([]string, len(c.Victims))
		for i := range c.Victims {
			out[i] = c.Victims[i].UID
		}
		slices.Sort(out)
		return out
	}
	then, now := &a.Then, a.Now
	held := now.Outcome == whatif.Held && now.Reason == v1alpha1.ReasonQueueLimit && then.Outcome == core.Infeasible
	// Only the limit of the queue differs: without the limit, the preemptor fits in both decisions.
	// The quota ledger may have counted usage a moment earlier or later than the log.
	limited := then.Outcome == core.Fits && (now.Outcome == core.Fits || now.Outcome == core.Waits)
	switch {
	case held:
		// The preemptor is at the limit of its queue, and there are no victims. Both decisions
		// evict nothing.
		a.State = Same
	case limited && !a.Preemptor.Gang:
		// All nodes where the pod fits are equally good.
		a.State = Same
	case then.Outcome != now.Outcome && !limited:
		a.Why = fmt.Sprintf("%s, and was %s", now.Outcome, then.Outcome)
	case !slices.Equal(uids(then), uids(now)):
		a.Why = "other victims"
	case !maps.Equal(then.Nodes, now.Nodes):
		a.Why = "other nodes"
	default:
		a.State = Same
	}
}

// Counts returns the number of answers with each State.
func Counts(answers []Answer) (same, differs, unknown int) {
	for i := range answers {
		switch answers[i].State {
		case Same:
			same++
		case Differs:
			differs++
		case Unknown:
			unknown++
		}
	}
	return same, differs, unknown
}
