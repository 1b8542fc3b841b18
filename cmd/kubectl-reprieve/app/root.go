package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	schedulerapp "github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
	"github.com/reprieve-dev/reprieve/internal/escape"
)

// asking is the state that all subcommands share.
type asking struct {
	streams  genericiooptions.IOStreams
	kube     *genericclioptions.ConfigFlags
	clock    clock.Clock
	coloured bool
	// snapshot is the name of the snapshot file; "" for the live cluster. configuration is the name
	// of the scheduler's configuration file; "" for the default. format is the format of answers.
	snapshot, configuration, format string
	// noted has the notes that were already printed.
	noted map[string]bool
}

// Run runs the command and returns its exit code. environment looks up an environment variable. Run
// escapes control characters in all output that comes from a cluster or a file.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args []string, environment func(string) (string, bool)) int {
	_, plain := environment("NO_COLOR")
	coloured := !plain && isTerminal(streams.Out)
	out, errOut := &escape.Writer{To: streams.Out}, &escape.Writer{To: streams.ErrOut, Marks: progressMarks()}
	if coloured {
		out.Marks = colourMarks()
	}
	defer func() { _, _ = out.Close(), errOut.Close() }()
	streams.Out, streams.ErrOut = out, errOut
	a := &asking{
		streams: streams, kube: genericclioptions.NewConfigFlags(true).WithWarningPrinter(streams), clock: clock.RealClock{},
		coloured: coloured,
	}
	cmd := a.command()
	cmd.SetArgs(args)
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	err := cmd.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errNoRoom) && !errors.Is(err, errInterrupted) {
		fmt.Fprintln(streams.ErrOut, "error:", oneLine(err))
	}
	return codeOf(err)
}

// Silence turns off the log of the scheduler's library. Errors in this log would otherwise appear
// among the lines of the answer. The log is global to the process, so main calls Silence once,
// before Run.
func Silence() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	// Ignore the error: it only reports an unknown flag, and klog defines this flag.
	_ = flags.Set("stderrthreshold", "FATAL")
}

// command returns the root command, with all subcommands.
func (a *asking) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubectl-reprieve",
		Short: "Ask about the decisions of the scheduler Reprieve",
		Long: `Ask about the decisions of the scheduler Reprieve: who would go if this were submitted, why a
workload is pending, who is protected until when. Everything is decided by the scheduler's own code, on the
objects of the cluster or of a snapshot file. Nothing is ever written to a cluster.

Exit codes: 0 answered; 1 failed; 2 flags, manifest or snapshot not right; 3 no such object, or
it has no pod that the question is about; 4 a right is missing; 5 the API server does not answer, or has no
Reprieve; 6 answered, and something planned finds no room; 130 why --watch was interrupted.`,
		Version:       schedulerapp.VersionLine(version.Get().GitVersion),
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl reprieve"},
		// Cobra's own check of unknown commands would return an error without the exit code for
		// usage.
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	// Cobra sets this default only when it looks up a command itself.
	cmd.SuggestionsMinimumDistance = 2
	cmd.SetVersionTemplate("{{.Version}}\n")
	flags := cmd.PersistentFlags()
	// Define a flag version here. Without it, Cobra would use the global flag version of the
	// scheduler's library.
	flags.Bool("version", false, "Print the version.")
	a.kube.AddFlags(flags)
	flags.StringVarP(&a.format, "output", "o", formatTable, "How to write the answer: table, wide, json or yaml.")
	flags.StringVar(&a.snapshot, "snapshot", "", "A file of \"snapshot\" to go by, in place of the live cluster; - for standard input.")
	flags.StringVar(&a.configuration, "config", "", "The scheduler's KubeSchedulerConfiguration file; by default that of the snapshot, or the one that the scheduler runs without --config.")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if !cmd.HasParent() {
			// Report a misspelled command before the error about the flag, because the flag may
			// belong to the intended command.
			if unknown := knownCommand(cmd, cmd.Flags().Args()); unknown != nil {
				return unknown
			}
		}
		return usage(fmt.Errorf("%w; see %s --help", err, cmd.CommandPath()))
	})
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return a.checkFormat() }
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats(), cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(a.planCommand(), a.whyCommand(), a.whenCommand(), a.statusCommand(), a.waitingCommand(), a.degradedCommand(), a.costCommand(), a.lintCommand(), a.queuesCommand(), a.protectedCommand(), a.historyCommand(), a.replayCommand(), a.simulateCommand(),
		a.snapshotCommand(), a.reportCommand(), a.uiCommand())
	for _, sub := range cmd.Commands() {
		sub.Version = cmd.Version
		sub.SetVersionTemplate(cmd.VersionTemplate())
	}
	return cmd
}

// knownCommand returns an error if the root command has arguments. The first argument is then an
// unknown command.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	instead := ""
	if alike := cmd.SuggestionsFor(args[0]); len(alike) > 0 {
		instead = fmt.Sprintf("; did you mean %s?", strings.Join(alike, " or "))
	}
	return usage(fmt.Errorf("unknown command %q%s; see %s --help", args[0], instead, cmd.CommandPath()))
}

// exactly returns a check of the number of arguments, as cobra's ExactArgs does. Its error names
// the expected arguments.
func exactly(what ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(what) {
			return nil
		}
		if len(what) == 0 {
			return usage(fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args))
		}
		return usage(fmt.Errorf("%s takes %d arguments, %v, and got %q", cmd.CommandPath(), len(what), what, args))
	}
}

// patience is the time that a command runs before it shows progress.
const patience = time.Second
