package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/reprieve-dev/reprieve/deploy"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

// errInterrupted is the error of a start that a signal interrupts.
var errInterrupted = errors.New("interrupted before it was ready")

// schedulerSuffix is appended to the name of the playground's kubeconfig. The file with this name
// is the kubeconfig for a scheduler that the user starts.
const schedulerSuffix = ".scheduler"

// upFlags holds the flags of `playground up` as the user sets them.
type upFlags struct {
	nodes           int
	nodeResources   string
	kubeconfig      string
	scheduler       string
	schedulerConfig string
	dataDir         string
	binDir          string
	nativeWorkloads bool
}

func newCommand(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "playground",
		Short:         "A Kubernetes control plane with simulated nodes on one machine",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newUpCommand(stdout, stderr))
	return root
}

func newUpCommand(stdout, stderr io.Writer) *cobra.Command {
	var flags upFlags
	up := &cobra.Command{
		Use:   "up --kubeconfig FILE",
		Short: "Run a playground until it is interrupted",
		Long: `Runs etcd, kube-apiserver, kube-controller-manager, simulated nodes and the scheduler until SIGINT or SIGTERM.

When pods can be scheduled, one line that starts with "ready" goes to standard output; progress goes to standard error.
The CustomResourceDefinitions and admission policies of Reprieve are installed as they are on a cluster.
Every port is on 127.0.0.1 and is chosen freely, so several playgrounds can run side by side.

With --scheduler none, you can start a scheduler by hand with the kubeconfig FILE` + schedulerSuffix + `.
The admission policies permit its user to fill in priorities. They do not permit the user of FILE, though it has all rights.

A pod runs until it is deleted, and a deleted pod has its whole grace period. To end a pod by itself, annotate it:
  ` + playground.RunForAnnotation + `: "30s"`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := flags.options(stderr)
			if err != nil {
				return err
			}
			return run(cmd.Context(), options, stdout)
		},
	}
	set := up.Flags()
	set.IntVar(&flags.nodes, "nodes", 8, "number of simulated nodes")
	set.StringVar(&flags.nodeResources, "node-resources", "cpu=64,memory=512Gi,nvidia.com/gpu=8", "what each node has; pods=110 unless given")
	set.StringVar(&flags.kubeconfig, "kubeconfig", "", "file to write the admin kubeconfig to, FILE; it is removed at the end")
	set.StringVar(&flags.scheduler, "scheduler", "", "scheduler binary, or \"none\" (default: reprieve-scheduler beside the other binaries)")
	set.StringVar(&flags.schedulerConfig, "scheduler-config", "", "KubeSchedulerConfiguration file for the scheduler")
	set.StringVar(&flags.dataDir, "data-dir", "", "directory that keeps the cluster's state from run to run (default: a temporary one)")
	set.BoolVar(&flags.nativeWorkloads, "native-workload-api", false, "also serve the Workloads and PodGroups of scheduling.k8s.io (off by default)")
	set.StringVar(&flags.binDir, "bin-dir", "", "directory of the binaries (default: this program's, then PATH)")
	return up
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unknown command or argument %q", args[0])
	}
	return nil
}

func (f *upFlags) options(stderr io.Writer) (playground.Options, error) {
	if f.kubeconfig == "" {
		return playground.Options{}, errors.New("--kubeconfig is required: the file to write the kubeconfig to")
	}
	if f.nodes < 0 {
		return playground.Options{}, fmt.Errorf("--nodes is %d, it must be 0 or more", f.nodes)
	}
	resources, err := playground.ParseNodeResources(f.nodeResources)
	if err != nil {
		return playground.Options{}, fmt.Errorf("--node-resources: %w", err)
	}
	schedulerKubeconfig := ""
	if f.scheduler == playground.NoScheduler {
		schedulerKubeconfig = f.kubeconfig + schedulerSuffix
	}
	return playground.Options{
		BinDir:     f.binDir,
		DataDir:    f.dataDir,
		Kubeconfig: f.kubeconfig,

		SchedulerKubeconfig: schedulerKubeconfig,

		NodeGroups: []playground.NodeGroup{{Count: f.nodes, Resources: resources}},
		CRDs:       deploy.API,

		NativeWorkloadAPI: f.nativeWorkloads,

		Scheduler: playground.SchedulerOptions{Path: f.scheduler, Config: f.schedulerConfig},
		Progress: func(step string) {
			// If standard error is closed, the step is not shown. That must not stop the start.
			_, _ = fmt.Fprintln(stderr, step)
		},
	}, nil
}

// run keeps a playground up until ctx ends or a component dies.
func run(ctx context.Context, options playground.Options, stdout io.Writer) error {
	p, err := playground.Start(ctx, options)
	if err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		return err
	}
	ready := fmt.Sprintf("ready: %d nodes, kubeconfig %s", options.NodeGroups[0].Count, p.Kubeconfig())
	if options.SchedulerKubeconfig != "" {
		ready += ", for a scheduler " + p.SchedulerKubeconfig()
	}
	_, err = fmt.Fprintln(stdout, ready)
	if err != nil {
		return errors.Join(fmt.Errorf("say that it is ready: %w", err), p.Stop())
	}
	select {
	case <-ctx.Done():
	case <-p.Done():
	}
	return p.Stop()
}
