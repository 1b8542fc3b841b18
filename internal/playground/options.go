package playground

import (
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
)

// The names of the components, as Component, Options.ExtraArgs and error messages use them.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Kwok              = "kwok"
	Scheduler         = "scheduler"
)

// NoScheduler as SchedulerOptions.Path runs no scheduler.
const NoScheduler = "none"

// schedulerBinary is the file name of the scheduler that is run when no path is given.
const schedulerBinary = "reprieve-scheduler"

// RunForAnnotation on a pod makes it end in phase Succeeded once it has run for that long. The value is a duration in
// hours, minutes and seconds, such as "30s" or "1h30m". Without it a pod runs until it is deleted.
const RunForAnnotation = "playground.reprieve.dev/run-for"

// Options says what a Playground consists of. The zero value is a control plane with no nodes and the scheduler that
// is found beside the running binary.
type Options struct {
	// BinDir is the directory of the component binaries. When it is empty they are looked for in the directory of
	// the running executable and then in PATH.
	BinDir string

	// DataDir keeps etcd's data, the certificate authority and the logs, so that a later Start with the same
	// directory finds the same cluster state. It is created when it does not exist. When it is empty a temporary
	// directory is used, and removed by Stop.
	DataDir string

	// TempDir is where the temporary data directory is made; empty means the system's place for temporary files.
	TempDir string

	// Kubeconfig is a file to write the admin kubeconfig to. Stop removes it. When it is empty the kubeconfig
	// is written in the data directory only.
	Kubeconfig string

	// SchedulerKubeconfig is a file to write a kubeconfig to for a scheduler that is started by hand: with all rights,
	// and under the user name that the admission policies of deploy/ let pass. Stop removes it. Empty writes none.
	SchedulerKubeconfig string

	// NodeGroups are the simulated nodes to create. Nodes that a kept data directory already holds are left as
	// they are.
	NodeGroups []NodeGroup

	// CRDs holds manifests, at any depth, in files that end in .yaml. They are applied to the API server before Start returns;
	// the CustomResourceDefinitions go first and are waited for. Nil applies nothing.
	CRDs fs.FS

	// Scheduler is the scheduler that Start runs.
	Scheduler SchedulerOptions

	// Controllers is kube-controller-manager's --controllers. Empty runs those that are on by default.
	Controllers []string

	// NativeWorkloadAPI has the API server serve the Workloads and PodGroups of scheduling.k8s.io, which are off by
	// default, with all fields that preemption takes, in the version that its Kubernetes has. Start fails with
	// ErrNoWorkloadAPI before 1.35.
	NativeWorkloadAPI bool

	// AuditPolicy is an audit policy, as YAML, by which the API server records requests in [Playground.AuditLog]. Empty
	// records none.
	AuditPolicy string

	// ExtraArgs are command-line arguments by component name. They come last, so they win over the playground's own.
	ExtraArgs map[string][]string

	// Progress is called with one short line for each step that is done, from the goroutine that calls Start or
	// Stop or from one they wait for, never from two at once. Nil is allowed.
	Progress func(step string)
}

// SchedulerOptions says which scheduler to run, and how.
type SchedulerOptions struct {
	// Path is the scheduler binary. Empty looks for reprieve-scheduler where the other binaries are; NoScheduler runs none.
	Path string

	// Config is a KubeSchedulerConfiguration file. Where its clientConnection.kubeconfig is empty a copy with
	// Kubeconfig filled in is used instead.
	Config string

	// Kubeconfig is the kubeconfig the scheduler works with. Empty means one with all rights, under the user name that
	// the scheduler has where deploy/ is installed: the admission policies that are installed there let it pass.
	Kubeconfig string

	// Args are command-line arguments that come last.
	Args []string

	// Ended is called with an *ExitError when the scheduler ends by itself once it was ready, as a leader does that cannot
	// renew its lease. It does not count as a death then, and may be started again, but not by the goroutine of the call.
	// Nil has the playground fail.
	Ended func(error)
}

// NodeGroup is a number of simulated nodes that are alike.
type NodeGroup struct {
	// Prefix of the nodes' names; "node" when empty gives node-0, node-1 and so on. Groups with the same prefix
	// share one count.
	Prefix string

	// Count is the number of nodes, 0 or more.
	Count int

	// Resources is the capacity and the allocatable of each node. Where pods is absent it is 110.
	Resources corev1.ResourceList

	// Labels are added to the labels that every node has: hostname, architecture, operating system, zone. They win
	// over those.
	Labels map[string]string

	// Taints are the nodes' own taints.
	Taints []corev1.Taint
}

func (o *Options) validate() error {
	for i, g := range o.NodeGroups {
		if g.Count < 0 {
			return fmt.Errorf("node group %d: the number of nodes is %d, it must be 0 or more", i, g.Count)
		}
	}
	known := map[string]bool{Etcd: true, APIServer: true, ControllerManager: true, Kwok: true, Scheduler: true}
	for name := range o.ExtraArgs {
		if !known[name] {
			return fmt.Errorf("extra arguments for %q: no such component", name)
		}
	}
	if o.Scheduler.Path == NoScheduler && o.Scheduler.Config != "" {
		return errors.New("a scheduler configuration is given, but no scheduler is to be run")
	}
	return nil
}
