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
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/manifest"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// planAnswer is the answer of the subcommand plan.
type planAnswer struct {
	typed
	Results []whatif.Result `json:"results"`
	Cost    whatif.Cost     `json:"cost"`
	Ignored []string        `json:"ignored,omitempty"`
	// Unknown lists given objects that create pods, but are of a kind that plan does not support.
	// Each entry has the reason.
	Unknown []string `json:"unknown,omitempty"`
	// Notes lists likely mistakes in the given objects, and given objects that the cluster already
	// has.
	Notes []string `json:"notes,omitempty"`

	// owners names the creators of pods, to merge pods of one owner in lists.
	owners owners
}

func (a *asking) planCommand() *cobra.Command {
	var files []string
	var vary manifest.Variation
	var replicas int32
	cmd := &cobra.Command{
		Use:   "plan -f FILE|DIRECTORY",
		Short: "Show where work would run, which victims it needs, and their cost",
		Long: `Show where work would run if it were submitted now, its victims and their cost, or why it would not run.

The plan covers Pods, Jobs, JobSets, LeaderWorkerSets, PyTorchJobs, MPIJobs, RayClusters, RayJobs, Deployments, ReplicaSets,
StatefulSets and ReplicationControllers. Their PodGroups are in the manifests, or the scheduler derives them if the objects
ask for a gang. For other kinds that create pods, the answer gives the reason why they are unknown. PriorityClasses, Queues
and the like count as if they existed.

For a directory, the plan reads all files that end in .yaml, .yml or .json, by name. Several objects are planned in their order,
each on the cluster as the one before would leave it. Pending work of the cluster is not placed first: it keeps its
reservations, and nothing more.`,
		Example: "  kubectl reprieve plan -f job.yaml\n  helm template . | kubectl reprieve plan -f - --set-priority high --replicas 4",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return usage(fmt.Errorf("plan what? Give manifests with -f FILE, or -f - for standard input"))
			}
			if cmd.Flags().Changed("replicas") {
				if replicas < 0 {
					return usage(fmt.Errorf("--replicas %d: it is at least 0", replicas))
				}
				vary.Replicas = &replicas
			}
			return a.plan(cmd.Context(), files, vary)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&files, "filename", "f", nil, "Manifests to plan, in this order, or directories of them; - for standard input.")
	flags.StringVar(&vary.Priority, "set-priority", "", "Plan as if the work had this priority: a number, or a PriorityClass.")
	flags.StringVar(&vary.Queue, "queue", "", "Plan as if the work were in this Queue.")
	flags.Int32Var(&replicas, "replicas", 0, "Plan as if controllers made this many pods.")
	return cmd
}

func (a *asking) plan(ctx context.Context, files []string, vary manifest.Variation) error {
	var documents []manifest.Document
	for _, given := range files {
		names, err := manifestsIn(given)
		if err != nil {
			return err
		}
		for _, name := range names {
			read, err := a.documents(name)
			if err != nil {
				return err
			}
			documents = append(documents, read...)
		}
	}
	shown := newProgress(a.streams.ErrOut, a.clock)
	answer, err := a.planned(ctx, shown, documents, vary)
	shown.end()
	if err != nil {
		return err
	}
	if err := a.write(answer, func(to io.Writer, wide bool) error { return a.showPlan(to, answer, wide) }); err != nil {
		return err
	}
	if slices.ContainsFunc(answer.Results, func(r whatif.Result) bool { return !r.HasRoom() }) {
		return errNoRoom
	}
	return nil
}

func (a *asking) documents(name string) ([]manifest.Document, error) {
	from, end, err := a.open(name)
	if err != nil {
		return nil, err
	}
	defer end()
	return manifest.Read(name, from)
}

func (a *asking) planned(ctx context.Context, shown *progress, documents []manifest.Document, vary manifest.Variation) (*planAnswer, error) {
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return nil, err
	}
	if vary.Namespace, err = a.namespace(); err != nil {
		return nil, err
	}
	vary.QueueLabel = queueLabel(asked.cfg)
	submitted, err := manifest.Submit(ctx, asked.objects, asked.cfg, documents, vary)
	if err != nil {
		return nil, err
	}
	total := 0
	for i := range submitted.Workloads {
		total += submitted.Workloads[i].Turns()
	}
	results, err := whatif.Plan(ctx, submitted.Objects, asked.cfg, submitted.Workloads, func(decided int) {
		shown.say("deciding %d of %d", decided+1, total)
	})
	if err != nil {
		return nil, err
	}
	answer := &planAnswer{
		typed:   typed{APIVersion: answerVersion, Kind: "Plan", Taken: asked.objects.Taken.UTC()},
		Results: results, Ignored: submitted.Ignored, Unknown: submitted.Unknown,
	}
	if answer.owners, err = ownersOf(asked.objects); err != nil {
		return nil, err
	}
	if answer.Notes, err = notesOn(asked, submitted, documents); err != nil {
		return nil, err
	}
	for i := range results {
		answer.Cost.Add(results[i].Cost)
	}
	return answer, nil
}

// queueLabel returns the key of the label that names the queue of a pod. It uses the first profile
// that has arguments for Reprieve.
func queueLabel(cfg *config.KubeSchedulerConfiguration) string {
	for _, profile := range cfg.Profiles {
		for _, plugin := range profile.PluginConfig {
			if plugin.Name != scheduler.Name {
				continue
			}
			if args, err := configv1alpha1.Decode(plugin.Args); err == nil && args.QueueLabelKey != nil {
				return *args.QueueLabelKey
			}
		}
	}
	return v1alpha1.LabelQueue
}

// showPlan prints an answer of plan as text.
func (a *asking) showPlan(to io.Writer, answer *planAnswer, wide bool) error {
	rows := [][]string{{"WORKLOAD", "OUTCOME", "PLACED", "VICTIMS", "GPU-HOURS LOST", "NODES"}}
	if wide {
		rows[0] = append(rows[0], "CPU-HOURS LOST", "DEVICE-HOURS LOST")
	}
	for i := range answer.Results {
		r := &answer.Results[i]
		row := []string{
			title(r), a.paint(colourOf(r), outcomes(r)), fmt.Sprintf("%d/%d", r.Placed, r.Pods),
			victims(r.Cost), hours(r.Cost.GPUHours), nodes(r, wide),
		}
		if wide {
			row = append(row, hours(r.Cost.CPUHours), hours(r.Cost.LostDeviceHours))
		}
		rows = append(rows, row)
	}
	if err := table(to, rows); err != nil {
		return err
	}
	for i := range answer.Results {
		a.showSteps(to, &answer.Results[i], answer.owners, wide)
	}
	if len(answer.Results) == 0 {
		fmt.Fprintln(to, "Nothing that was given makes pods.")
	}
	for i, note := range answer.Notes {
		if i == 0 {
			fmt.Fprintln(to)
		}
		fmt.Fprintln(to, "Note:", note)
	}
	if len(answer.Ignored) > 0 {
		fmt.Fprintln(to, "\nNot planned, no decision depends on it:", strings.Join(answer.Ignored, ", "))
	}
	for i, unknown := range answer.Unknown {
		if i == 0 {
			fmt.Fprintln(to)
		}
		fmt.Fprintln(to, "Not planned:", unknown)
	}
	return nil
}

func title(r *whatif.Result) string {
	name := strings.ToLower(r.Kind) + "/" + r.Name
	if r.Part != "" {
		name += " " + r.Part
	}
	return name + " (" + r.Namespace + ")"
}

// outcomes summarizes the outcomes of the steps. If all steps have the same outcome, it returns
// this outcome. Otherwise it returns the number of steps with each outcome.
func outcomes(r *whatif.Result) string {
	var order []core.Outcome
	counts := make(map[core.Outcome]int)
	for i := range r.Steps {
		o := r.Steps[i].Outcome
		if counts[o] == 0 {
			order = append(order, o)
		}
		counts[o]++
	}
	switch len(order) {
	case 0:
		return "Nothing"
	case 1:
		return string(order[0])
	}
	parts := make([]string, len(order))
	for i, o := range order {
		parts[i] = strconv.Itoa(counts[o]) + " " + string(o)
	}
	return strings.Join(parts, ", ")
}

func colourOf(r *whatif.Result) string {
	switch {
	case !r.HasRoom():
		return bad
	case r.Cost.Pods > 0:
		return fair
	default:
		return good
	}
}

func victims(cost whatif.Cost) string {
	if cost.Pods == 0 {
		return "none"
	}
	out := plural(cost.Pods, "pod")
	if cost.Groups > 0 {
		out += " (" + plural(cost.Groups, "group") + ")"
	}
	return out
}

// nodes returns the names of the nodes of the placed pods: all of them, or only the first few.
func nodes(r *whatif.Result, all bool) string {
	const few = 3
	var names []string
	for i := range r.Steps {
		for _, place := range r.Steps[i].Placements {
			names = append(names, place.Node)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case len(names) == 0:
		return "-"
	case all || len(names) <= few:
		return strings.Join(names, ",")
	default:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ","), len(names)-few)
	}
}

// showSteps prints each decision in words, with its victims. The table of showPlan leaves these
// out.
func (a *asking) showSteps(to io.Writer, r *whatif.Result, of owners, wide bool) {
	said := ""
	for i := range r.Steps {
		step := &r.Steps[i]
		if step.Message == said && len(step.Victims) == 0 {
			continue
		}
		said = step.Message
		fmt.Fprintf(to, "\n%s: %s\n", a.paint(bold, title(r)), step.Message)
		showVictims(to, step, of, wide, func(v *whatif.Victim) string { return plural(len(v.Pods), "pod") + ", " + lossOf(v) })
		for _, note := range step.DomainNotes {
			fmt.Fprintf(to, "  Domain %s\n", note)
		}
		if step.Cascade != nil {
			fmt.Fprintf(to, "  %s\n", cascadeText(step.Cascade))
		}
		if step.Outcome != core.Infeasible && step.Outcome != whatif.Held && !wide {
			continue
		}
		stays := make([]mention, len(step.Protected))
		for j, p := range step.Protected {
			stays[j] = mention{unitName(p.Namespace, p.Name, p.Group), protection(&p)}
		}
		shown, more := of.few(stays, wide)
		for _, m := range shown {
			fmt.Fprintf(to, "  - %s stays: %s\n", m.unit, m.said)
		}
		if more > 0 {
			fmt.Fprintf(to, "  - %d more stay, see -o wide\n", more)
		}
		if step.RetryAt != nil {
			fmt.Fprintf(to, "  Not before %s: until then it is protections that are in the way.\n", step.RetryAt.Format(time.RFC3339))
		}
	}
}

// lossOf describes the loss of a victim: the GPU-hours of its pods so far, the lost work in
// device-hours, and the earlier stops of its group.
func lossOf(v *whatif.Victim) string {
	return fmt.Sprintf("%s GPU-hours, %s device-hours lost%s", hours(v.Cost.GPUHours), hours(v.Cost.LostDeviceHours), stopsBefore(v.Stops))
}

// stopsBefore describes the number of preemptions that stopped a group since it last made progress.
// For 0, it returns "".
func stopsBefore(stops int32) string {
	switch {
	case stops <= 0:
		return ""
	case stops == 1:
		return ", stopped once before"
	default:
		return fmt.Sprintf(", stopped %d times before", stops)
	}
}

// cascadeText describes the evictions that would follow when controllers replace the victims.
func cascadeText(c *core.Cascade) string {
	atLeast := ""
	if c.Partial {
		atLeast = "at least "
	}
	return fmt.Sprintf("Controllers create %s of these again, which would evict %s%s.", plural(c.Replacements, "pod"), atLeast, plural(c.Evictions, "pod"))
}

// showBrokenGangs prints the gangs that fall below minCount, with the work that their remaining
// members lose.
func showBrokenGangs(to io.Writer, step *whatif.Step) {
	for i := range step.BrokenGangs {
		if g := &step.BrokenGangs[i]; g.LostWork > 0 {
			fmt.Fprintf(to, "  - %s falls below minCount: other members, %s device-hours lost\n", unitName(g.Namespace, g.Name, true), hours(core.DeviceHours(g.LostWork)))
		}
	}
}

// protection describes a protection of a unit: the rule, and the end of the protection.
func protection(p *core.ProtectedUnit) string {
	said := string(p.Rule)
	if p.Queue != "" {
		said += " of queue " + p.Queue
	}
	switch p.Until {
	case 0:
		return said
	case core.Forever:
		return said + ", without an end"
	default:
		return said + " until " + time.Unix(0, p.Until).UTC().Format(time.RFC3339)
	}
}
