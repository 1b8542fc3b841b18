package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version"
	"k8s.io/component-base/version/verflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/reprieve-dev/reprieve/internal/escape"
)

// Options are the options of kube-scheduler and of Reprieve.
type Options struct {
	*options.Options
	// SchedulerName is the schedulerName of the profile in the default configuration.
	SchedulerName string
	// DecisionLog configures the decision log.
	DecisionLog DecisionLogOptions
}

// NewOptions returns the default options, with their flags.
func NewOptions() *Options {
	o := &Options{Options: options.NewOptions()}
	o.LeaderElection.ResourceName = "reprieve-scheduler"
	o.showDefaults()
	o.Flags.FlagSet("misc").StringVar(&o.SchedulerName, "scheduler-name", o.SchedulerName,
		"The schedulerName that Pods ask for, in place of \"reprieve-scheduler\". Not together with --config, where profiles have names.")
	o.DecisionLog.addFlags(o.Flags)
	return o
}

// showDefaults sets the defaults in the help of some kube-scheduler flags, because Reprieve has
// other defaults for them.
func (o *Options) showDefaults() {
	for _, d := range []struct{ section, flag, value, unset string }{
		{section: "leader election", flag: "leader-elect-resource-name", value: o.LeaderElection.ResourceName},
		{section: "leader election", flag: "leader-elect-retry-period", value: retryPeriod.String()},
		{section: "deprecated", flag: "kube-api-qps", value: "0", unset: " Where it is not given, as many calls as the API server can take."},
		{section: "deprecated", flag: "kube-api-burst", value: "0", unset: " Where it is not given, as many calls as the API server can take."},
	} {
		if f := o.Flags.FlagSet(d.section).Lookup(d.flag); f != nil {
			f.DefValue = d.value
			f.Usage += d.unset
		}
	}
}

// NewCommand returns the reprieve-scheduler command.
func NewCommand() *cobra.Command {
	opts := NewOptions()
	cmd := &cobra.Command{
		Use:   "reprieve-scheduler",
		Short: "A Kubernetes scheduler that places gangs whole and preempts whole workloads",
		Long: `reprieve-scheduler is a kube-scheduler with Reprieve's plugins. It places gangs whole or not at all.
For them it preempts whole workloads, as few as possible.

Without --config it runs one profile, named reprieve-scheduler, with Reprieve on and DefaultPreemption off.
With --config it takes any KubeSchedulerConfiguration. The names of the plugins are Reprieve and, for the order
of the queue, ReprievePrioritySort.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("takes no arguments, got %q", args)
			}
			return nil
		},
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return opts.ComponentGlobalsRegistry.Set()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if v := cmd.Flags().Lookup("version"); v != nil && v.Value.String() == "true" {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), VersionLine(version.Get().GitVersion))
				return err
			}
			// This handles --version=raw and --version=vX.Y.Z, as in every component of Kubernetes.
			verflag.PrintAndExitIfRequested()
			if err := logsapi.ValidateAndApplyWithOptions(opts.Logs, logStreams(os.Stdout, os.Stderr), utilfeature.DefaultFeatureGate); err != nil {
				return err
			}
			cliflag.PrintFlags(cmd.Flags())
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			stop := server.SetupSignalHandler()
			go func() {
				<-stop
				cancel()
			}()
			return Run(ctx, opts)
		},
	}
	nfs := opts.Flags
	verflag.AddFlags(nfs.FlagSet("global"))
	globalflag.AddGlobalFlags(nfs.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, f := range nfs.FlagSets {
		cmd.Flags().AddFlagSet(f)
	}
	cols, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *nfs, cols)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w; see --help", err)
	})
	return cmd
}

// VersionLine returns the version of Reprieve and the version of the Kubernetes library. gitVersion
// is the version of the library, with Reprieve's version as build metadata.
func VersionLine(gitVersion string) string {
	kubernetes, reprieve, stamped := strings.Cut(gitVersion, "+reprieve.")
	if !stamped {
		reprieve = "(built without a version)"
	}
	return fmt.Sprintf("Reprieve %s, Kubernetes %s", reprieve, kubernetes)
}

// OneLine returns the message of an error on one line. It separates the messages of an aggregate of
// several errors by semicolons.
func OneLine(err error) string {
	var agg interface{ Errors() []error }
	if errors.As(err, &agg) && len(agg.Errors()) > 1 {
		parts := make([]string, 0, len(agg.Errors()))
		for _, e := range agg.Errors() {
			parts = append(parts, OneLine(e))
		}
		return strings.Join(parts, "; ")
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// logStreams returns the streams of the log. They escape control characters, because klog writes
// multi-line values unchanged and values may be text from users.
func logStreams(info, errors io.Writer) *logsapi.LoggingOptions {
	return &logsapi.LoggingOptions{InfoStream: &escape.Writer{To: info}, ErrorStream: &escape.Writer{To: errors}}
}
