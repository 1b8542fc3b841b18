package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	schedulerapp "github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/openb"
	"github.com/reprieve-dev/reprieve/internal/scenario"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
	"github.com/reprieve-dev/reprieve/internal/simulation"
	"github.com/reprieve-dev/reprieve/internal/simulation/plot"
)

// simulateAnswer is the answer of the subcommand simulate.
type simulateAnswer struct {
	typed
	// Snapshot describes the work that comes from a snapshot or a decision log; nil for a trace
	// alone. Nodes, Pods and Work are the numbers of simulated nodes, pods and workloads. Skipped
	// is the number of broken lines in the trace or the log, and FirstSkipped describes the first
	// one.
	Snapshot     *scenario.Facts `json:"snapshot,omitempty"`
	Nodes        int             `json:"nodes"`
	Pods         int             `json:"pods"`
	Work         int             `json:"work"`
	Skipped      int             `json:"skippedLines,omitempty"`
	FirstSkipped string          `json:"firstSkipped,omitempty"`
	Seed         uint64          `json:"seed"`
	// Seconds is the simulated time.
	Seconds float64              `json:"seconds"`
	Results []*simulation.Result `json:"results"`
}

// simulateFlags are the flags of the subcommand simulate.
type simulateFlags struct {
	trace, queues string
	// plot is the name of a file for a plot of the waiting times; "" for none.
	plot              string
	policies, configs []string
	// logs are the files of a decision log.
	logs  []string
	shape openb.Shape
	nodes int
	// runs is the assumed run time of pending work whose objects declare no end.
	runs time.Duration
	opts simulation.Options
}

func (a *asking) simulateCommand() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate --trace DIR | --snapshot FILE | --log FILE",
		Short: "Play a trace or a cluster in virtual time, and compare policies",
		Long: `Play the public GPU trace openb in virtual time: work comes, waits for its turn, is placed, is evicted and comes again.
The scheduler's own code decides. For each policy, the answer has the waits by queue and priority, the evictions, and
the use of the GPU-hours. The same trace, flags and seed give the same answer, byte for byte.

The policies are: ` + "`priority`, Reprieve without queues and with the order of KEP-5710; `lost-work`, the same with the default order;\n`queues`, Reprieve with queues and the default order; `kube-scheduler`, a model of its default preemption, where each\npod of a gang is scheduled alone; `none`, gangs placed as a whole, without preemption. --policy also accepts\n`bands-of-three`, which is `lost-work` with the priorities from 0 to 2000 in one band." + ` With --config, each configuration of a scheduler is
played as "queues" with the plugin's arguments, and policies only where --policy names them.

The trace does not have all inputs. Priorities follow the QoS. Pods of one shape that arrive together are a gang. The seed
selects one of three queues, or one of the queues of --queues. Times are scaled so that the trace fills its nodes for a day. Broken lines are skipped and counted.

With --snapshot the simulation starts with the nodes, queues, running work and waiting work of a cluster. With --trace it adds
the work of the trace. Work ends when its activeDeadlineSeconds are over. Other running work continues for as long as it has run
before, and other waiting work runs for --runs. Work of a ReplicaSet or StatefulSet does not end.

With --log the simulation starts with the first cluster in a decision log with inputs (--decision-log-inputs). The work
arrives and runs as it did there, as far as the log has it.`,
		Example: "  kubectl reprieve simulate --trace traces/openb --nodes 400\n  kubectl reprieve simulate --trace traces/openb --config a.yaml --config b.yaml -o json\n  kubectl reprieve snapshot > cluster.json && kubectl reprieve simulate --snapshot cluster.json --span 12h",
		Args:    exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.simulate(cmd.Context(), &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.trace, "trace", "", "The directory with the lists "+openb.NodeList+" and "+openb.PodList+", or a list of pods beside the list of nodes.")
	flags.StringVar(&f.plot, "plot", "", "The SVG file for a plot of the waits of work, by priority and policy.")
	flags.StringArrayVar(&f.policies, "policy", nil, "A policy to play: priority, lost-work, queues, kube-scheduler, none or bands-of-three. Repeat for more. Without --config, the default is all but the last.")
	flags.StringArrayVar(&f.configs, "config", nil, "A KubeSchedulerConfiguration file to play. Repeat for more.")
	flags.StringArrayVar(&f.logs, "log", nil, "A file of the scheduler's --decision-log, with the inputs of decisions. Repeat for more files of the same log.")
	flags.StringVar(&f.queues, "queues", "", "A file with Queues for the work of --trace, instead of three Queues of equal quota.")
	flags.DurationVar(&f.runs, "runs", time.Hour, "The run time of waiting work in --snapshot that declares no end.")
	flags.Uint64Var(&f.opts.Seed, "seed", 1, "The seed of all random choices.")
	flags.DurationVar(&f.shape.Span, "span", 24*time.Hour, "The length of the simulation. All work arrives within it.")
	flags.Float64Var(&f.shape.Load, "load", 1.2, "The GPU time of the work, relative to the GPU time of the nodes; 0 for the trace's own.")
	flags.DurationVar(&f.shape.Together, "together", time.Minute, "The longest time between pods of one shape that form a gang; 0 for no gangs.")
	flags.IntVar(&f.nodes, "nodes", 0, "The number of nodes, selected evenly; 0 for all.")
	flags.DurationVar(&f.opts.Checkpoint, "checkpoint", 0, "The interval between checkpoints of work; 0 for never, so that an eviction loses all of it.")
	flags.DurationVar(&f.opts.Grace, "grace", 30*time.Second, "The longest time that evicted pods take to terminate.")
	return cmd
}

func (a *asking) simulate(ctx context.Context, f *simulateFlags) error {
	if err := a.checkSource(f); err != nil {
		return err
	}
	policies, err := f.check(ctx)
	if err != nil {
		return err
	}
	shown := newLongProgress(a.streams.ErrOut, a.clock)
	defer shown.end()
	in, answer, err := a.toSimulate(ctx, f, shown)
	if err != nil {
		return err
	}
	if answer.Results, err = f.playAll(ctx, in, policies, shown); err != nil {
		return err
	}
	if err := f.drawPlot(answer.Results); err != nil {
		return err
	}
	return a.write(answer, func(to io.Writer, _ bool) error { return showSimulation(to, answer) })
}

// playAll simulates an input under each policy. It runs as many simulations at a time as there are
// processors. The results have the order of the policies.
func (f *simulateFlags) playAll(ctx context.Context, in *simulation.Input, policies []simulation.Policy, shown *progress) ([]*simulation.Result, error) {
	results := make([]*simulation.Result, len(policies))
	plays, ctx := errgroup.WithContext(ctx)
	plays.SetLimit(goruntime.GOMAXPROCS(0))
	for i, policy := range policies {
		opts := f.opts
		opts.Progress = func(passed time.Duration) {
			shown.say("simulating %s: %s of %s", policy.Name, passed.Truncate(time.Hour), opts.Lasts)
		}
		plays.Go(func() (err error) {
			results[i], err = simulation.Run(ctx, in, policy, opts)
			return err
		})
	}
	if err := plays.Wait(); err != nil {
		return nil, err
	}
	return results, nil
}

// drawPlot writes the plot, if the flags name a file for it.
func (f *simulateFlags) drawPlot(results []*simulation.Result) error {
	if f.plot == "" {
		return nil
	}
	if err := os.WriteFile(f.plot, []byte(plot.Draw(results)), ownerOnly); err != nil {
		return usage(fmt.Errorf("--plot: %w", err))
	}
	return nil
}

// toSimulate reads the input of the simulation.
func (a *asking) toSimulate(ctx context.Context, f *simulateFlags, shown *progress) (*simulation.Input, *simulateAnswer, error) {
	// Decisions do not depend on the date, so this start is arbitrary.
	f.shape.Start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	f.shape.Seed, f.opts.Lasts = f.opts.Seed, f.shape.Span
	answer := &simulateAnswer{typed: typed{APIVersion: answerVersion, Kind: "Simulation"}, Seed: f.opts.Seed, Seconds: f.opts.Lasts.Seconds()}
	var trace *openb.Trace
	if f.trace != "" {
		var err error
		if trace, err = f.read(); err != nil {
			return nil, nil, err
		}
		trace.Thin(f.nodes)
		answer.Skipped, answer.FirstSkipped = trace.Skipped, trace.First
	}
	read := func() (*simulation.Input, error) { return a.fromTrace(f, trace) }
	switch {
	case len(f.logs) > 0:
		read = func() (*simulation.Input, error) { return a.fromLog(ctx, f, answer, shown) }
	case a.snapshot != "":
		read = func() (*simulation.Input, error) { return a.fromSnapshot(ctx, f, trace, answer, shown) }
	}
	in, err := read()
	if err != nil {
		return nil, nil, err
	}
	answer.Taken, answer.Nodes, answer.Work = in.Start, len(in.Nodes), len(in.Work)
	for i := range in.Work {
		answer.Pods += len(in.Work[i].Requests)
	}
	return in, answer, nil
}

// fromTrace returns the input of the simulation for a trace.
func (a *asking) fromTrace(f *simulateFlags, trace *openb.Trace) (*simulation.Input, error) {
	queues, err := a.queuesFile(f.queues)
	if err != nil {
		return nil, err
	}
	f.shape.Queues = queues
	return trace.Input(f.shape), nil
}

// fromSnapshot returns the input of the simulation for the cluster in a snapshot. If trace is not
// nil, fromSnapshot adds the work of the trace.
func (a *asking) fromSnapshot(ctx context.Context, f *simulateFlags, trace *openb.Trace, answer *simulateAnswer, shown *progress) (*simulation.Input, error) {
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return nil, err
	}
	in, facts, err := scenario.FromCluster(ctx, asked.objects, asked.cfg, scenario.Assumptions{Lasts: f.opts.Lasts, Runs: f.runs})
	if err != nil {
		return nil, err
	}
	if answer.Snapshot = facts; trace != nil {
		scenario.AddTrace(in, trace, f.shape)
	}
	return in, nil
}

// fromLog returns the input of the simulation for a decision log.
func (a *asking) fromLog(ctx context.Context, f *simulateFlags, answer *simulateAnswer, shown *progress) (*simulation.Input, error) {
	log, err := a.readInputs(f.logs, shown)
	if err != nil {
		return nil, err
	}
	in, facts, err := scenario.FromLog(ctx, log, a.configs(), scenario.Assumptions{Lasts: f.opts.Lasts, Runs: f.runs})
	if errors.Is(err, scenario.ErrNoCluster) {
		return nil, usage(errors.New("the log does not have the inputs of decisions: run the scheduler with --decision-log-inputs=redacted"))
	}
	if err != nil {
		return nil, err
	}
	answer.Snapshot = facts
	answer.Skipped, answer.FirstSkipped = log.Broken()
	return in, nil
}

// queuesFile reads the queues for a trace from a file. If name is "", it returns nil.
func (a *asking) queuesFile(name string) ([]fairshare.Queue, error) {
	if name == "" {
		return nil, nil
	}
	documents, err := a.documents(name)
	if err != nil {
		return nil, err
	}
	var queues []*v1alpha1.Queue
	for i := range documents {
		q, ok := documents[i].Object.(*v1alpha1.Queue)
		if !ok {
			return nil, usage(fmt.Errorf("--queues %s: it has a %s; it is a file of Queues", name, documents[i].Kind))
		}
		queues = append(queues, q)
	}
	out := scenario.TraceQueues(scenario.Queues(queues, openb.Resources()))
	if len(out) == 0 {
		return nil, usage(fmt.Errorf("--queues %s: none of its %d Queues can be used", name, len(queues)))
	}
	return out, nil
}

// checkSource validates the flags about the source of the input. The source is a trace, a snapshot,
// a snapshot with a trace, or a decision log.
func (a *asking) checkSource(f *simulateFlags) error {
	switch {
	case f.trace == "" && a.snapshot == "" && len(f.logs) == 0:
		return usage(errors.New("simulate what? Give the directory of a trace with --trace DIR, a cluster with --snapshot FILE, or a decision log with --log FILE"))
	case len(f.logs) > 0 && (f.trace != "" || a.snapshot != ""):
		return usage(errors.New("--log has a cluster and its work already; leave --trace and --snapshot out"))
	case len(f.logs) > 0 && (f.queues != "" || f.nodes != 0):
		return usage(errors.New("--queues and --nodes are for a trace by itself; those of --log stay"))
	case a.snapshot != "" && f.queues != "":
		return usage(errors.New("--queues are for a trace by itself: the queues of --snapshot are in it"))
	case a.snapshot != "" && f.nodes != 0:
		return usage(errors.New("--nodes thins out the nodes of a trace; those of --snapshot stay"))
	case f.runs < time.Second:
		return usage(fmt.Errorf("--runs %s: it is at least 1s", f.runs))
	}
	return nil
}

// check validates the flags and returns the policies that they select.
func (f *simulateFlags) check(ctx context.Context) ([]simulation.Policy, error) {
	switch {
	case f.shape.Span < time.Minute || f.shape.Span > 366*24*time.Hour:
		return nil, usage(fmt.Errorf("--span %s: it is between 1m and a year (8784h)", f.shape.Span))
	case f.shape.Load < 0 || f.shape.Load > 100:
		return nil, usage(fmt.Errorf("--load %g: it is between 0 and 100", f.shape.Load))
	case f.nodes < 0:
		return nil, usage(fmt.Errorf("--nodes %d: it is at least 0", f.nodes))
	case f.shape.Together < 0 || f.opts.Checkpoint < 0 || f.opts.Grace < 0:
		return nil, usage(errors.New("--together, --checkpoint and --grace are not negative"))
	}
	var out []simulation.Policy
	for _, name := range f.configs {
		p, err := policyOf(ctx, name)
		if err != nil {
			return nil, usage(fmt.Errorf("--config %s: %w", name, err))
		}
		out = append(out, p)
	}
	known := simulation.NamedPolicies()
	for _, name := range f.policies {
		at := slices.IndexFunc(known, func(p simulation.Policy) bool { return p.Name == name })
		if at < 0 {
			var names []string
			for _, p := range known {
				names = append(names, p.Name)
			}
			return nil, usage(fmt.Errorf("--policy %q: it is one of %s", name, strings.Join(names, ", ")))
		}
		out = append(out, known[at])
	}
	if len(out) == 0 {
		return simulation.Policies(), nil
	}
	return out, nil
}

// policyOf returns the policy that corresponds to a scheduler's configuration file. It uses the
// first profile that has arguments for Reprieve.
func policyOf(ctx context.Context, file string) (simulation.Policy, error) {
	p := simulation.Policy{Name: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), Rule: simulation.ByQueues}
	cfg, err := schedulerapp.LoadConfig(ctx, file)
	if err != nil {
		return p, err
	}
	var given runtime.Object
	for i := range cfg.Profiles {
		for _, plugin := range cfg.Profiles[i].PluginConfig {
			if plugin.Name == scheduler.Name && given == nil {
				given = plugin.Args
			}
		}
	}
	args, err := configv1alpha1.Decode(given)
	if err != nil {
		return p, err
	}
	if !*args.WorkloadAware {
		return p, errors.New("it has workloadAware: false, which is not simulated; leave it out, or compare with --policy kube-scheduler")
	}
	p.MinRuntime = core.MinRuntime{
		Preempt: args.PreemptMinRuntime.Nanoseconds(), Reclaim: args.ReclaimMinRuntime.Nanoseconds(), Resolve: core.ResolveMethod(*args.ReclaimResolveMethod),
	}
	p.IgnoresTolerations = !*args.PreemptionToleration
	p.Bands, p.Cascade = scheduler.BandsOf(args), scheduler.CascadeOf(args)
	p.CountsStops = args.CountsStops()
	if args.CountsLostWork() {
		p.Order, p.Restart = core.OrderLostWork, args.LostWork.RestartCost.Nanoseconds()
		p.Step, p.PodCost = args.LostWork.Step.Nanoseconds(), args.LostWork.PodCost.Nanoseconds()
	}
	p.Limits = &core.Limits{
		PackingMembers: int(*args.Search.PackingMembers), PackingNodes: int(*args.Search.PackingNodes), PackingSteps: int(*args.Search.PackingSteps),
	}
	return p, nil
}

// read reads the lists of nodes and pods of the trace.
func (f *simulateFlags) read() (*openb.Trace, error) {
	dir, pods := f.trace, openb.PodList
	if info, err := os.Stat(f.trace); err == nil && !info.IsDir() {
		dir, pods = filepath.Dir(f.trace), filepath.Base(f.trace)
	}
	nodeList, err := os.Open(filepath.Join(dir, openb.NodeList))
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	defer func() { _ = nodeList.Close() }()
	podList, err := os.Open(filepath.Join(dir, pods))
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	defer func() { _ = podList.Close() }()
	trace, err := openb.Read(nodeList, podList)
	if errors.Is(err, openb.ErrFormat) {
		return nil, usage(fmt.Errorf("--trace %s: %w", f.trace, err))
	}
	return trace, err
}

// showSimulation prints an answer of simulate as text.
func showSimulation(to io.Writer, answer *simulateAnswer) error {
	lasts := time.Duration(answer.Seconds * float64(time.Second))
	fmt.Fprintf(to, "%d nodes, %d pods in %d workloads, %s, seed %d\n", answer.Nodes, answer.Pods, answer.Work, lasts, answer.Seed)
	if answer.Skipped > 0 {
		fmt.Fprintf(to, "%s skipped; the first is %s\n", plural(answer.Skipped, "broken line"), answer.FirstSkipped)
	}
	if facts := answer.Snapshot; facts != nil {
		fmt.Fprintf(to, "Workloads: %d run at the start, %d wait then, %d come later. How long they run is told of %d, declared by %d and assumed of %d; %d are services\n",
			facts.Running, facts.Pending, facts.Arriving, facts.Told, facts.Declared, facts.Assumed, facts.Services)
	}
	fmt.Fprintln(to)
	rows := [][]string{{"POLICY", "DONE", "RUNNING", "WAITING", "NEVER STARTED", "WAIT P50", "P99", "EVICTED PODS", "BY REPLACEMENTS", "GPU-HOURS USED", "LOST", "IDLE"}}
	for _, r := range answer.Results {
		rows = append(rows, []string{
			r.Policy, fmt.Sprint(r.Work.Done), fmt.Sprint(r.Work.Running), fmt.Sprint(r.Work.Waiting), fmt.Sprint(r.Wait.Never),
			lapse(r.Wait.P50), lapse(r.Wait.P99), fmt.Sprint(r.EvictedPods), fmt.Sprint(r.EvictedByReplacements), hours(r.GPUHours.Used), hours(r.GPUHours.Lost), hours(r.GPUHours.Idle),
		})
	}
	if err := table(to, rows); err != nil {
		return err
	}
	fmt.Fprintln(to, "\nHow long work waited, p50 / p99:")
	head := []string{"QUEUE", "PRIORITY", "WORKLOADS"}
	for _, r := range answer.Results {
		head = append(head, strings.ToUpper(r.Policy))
	}
	rows = [][]string{head}
	for i, g := range answer.Results[0].Groups {
		row := []string{g.Queue, fmt.Sprint(g.Priority), fmt.Sprint(g.Work)}
		for _, r := range answer.Results {
			row = append(row, lapse(r.Groups[i].Wait.P50)+" / "+lapse(r.Groups[i].Wait.P99))
		}
		rows = append(rows, row)
	}
	return table(to, rows)
}

// lapse formats a number of seconds as text, such as "2h05m".
func lapse(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
}
