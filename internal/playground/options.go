package playground

import (
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
)

// These are the component names in Component, Options.ExtraArgs and error messages.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Kwok              = "kwok"
	Scheduler         = "scheduler"
)

// NoScheduler is the value of SchedulerOptions.Path for running no scheduler.
const NoScheduler = "none"

// schedulerBinary is the file name of the default scheduler.
const schedulerBinary = "reprieve-scheduler"

// RunForAnnotation is a pod annotation. It ends the pod in phase Succeeded after the pod has run
// for a time. The value is a duration in hours, minutes and seconds, such as "30s" or "1h30m".
// Without the annotation, a pod runs until it is deleted.
const RunForAnnotation = "playground.reprieve.dev/run-for"

// Options are the settings of a Playground. The zero value selects a control plane without nodes,
// and the scheduler binary in the directory of the running executable.
type Options struct {
	// BinDir is the directory with the component binaries. If it is empty, they are looked up in
	// the directory of the running executable, and then in PATH.
	BinDir string

	// DataDir is the directory for etcd's data, the certificate authorities and the logs. A later
	// Start with the same directory has the same cluster state. Start creates the directory if
	// necessary. If DataDir is empty, Start uses a temporary directory, which Stop removes.
	DataDir string

	// TempDir is the parent directory of the temporary data directory. If it is empty, it is the
	// system's directory for temporary files.
	TempDir string

	// Kubeconfig is the file for the admin kubeconfig. Stop removes it. If Kubeconfig is empty, the
	// kubeconfig exists only in the data directory.
	Kubeconfig string

	// SchedulerKubeconfig is the file for the kubeconfig of a scheduler that the user starts. Its
	// user has all rights and a name that the admission policies of deploy/ accept. Stop removes
	// the file. If SchedulerKubeconfig is empty, the kubeconfig exists only in the data directory.
	SchedulerKubeconfig string

	// NodeGroups are the simulated nodes to create. A node that already exists in the data
	// directory is not changed.
	NodeGroups []NodeGroup

	// CRDs has manifests in files that end in .yaml, in any directory. Start applies them,
	// CustomResourceDefinitions first. If CRDs is nil, nothing is applied.
	CRDs fs.FS

	// Scheduler selects the scheduler that Start runs.
	Scheduler SchedulerOptions

	// Controllers is the value of kube-controller-manager's --controllers. If it is empty, the
	// default controllers run.
	Controllers []string

	// NativeWorkloadAPI enables the Workloads and PodGroups of scheduling.k8s.io, with all fields
	// for preemption. Their API version depends on the Kubernetes version. Before Kubernetes 1.35,
	// Start returns ErrNoWorkloadAPI.
	NativeWorkloadAPI bool

	// AuditPolicy is an audit policy of the API server, as YAML. [Playground.AuditLog] has the
	// recorded requests. If AuditPolicy is empty, no requests are recorded.
	AuditPolicy string

	// ExtraArgs maps a component name to further command-line arguments. They come last, so they
	// override the playground's arguments.
	ExtraArgs map[string][]string

	// Progress is called with one short line for each completed step. Calls may come from several
	// goroutines, but never overlap. All calls end before Start or Stop returns. Progress may be
	// nil.
	Progress func(step string)
}

// SchedulerOptions are the settings of a scheduler.
type SchedulerOptions struct {
	// Path is the scheduler binary. If it is empty, reprieve-scheduler is looked up where the other
	// binaries are. NoScheduler selects no scheduler.
	Path string

	// Config is a KubeSchedulerConfiguration file. If its clientConnection.kubeconfig is empty, the
	// scheduler gets a copy of the file with that field set.
	Config string

	// Kubeconfig is the scheduler's kubeconfig. If it is empty, the scheduler gets a kubeconfig
	// with all rights and a user name that the admission policies of deploy/ accept.
	Kubeconfig string

	// Args are further command-line arguments. They come last.
	Args []string

	// Ended is called with an *ExitError if the scheduler ends on its own after it was ready. An
	// example is a leader that cannot renew its lease. Such an end is then not a failure of the
	// playground. The scheduler may be started again, but not in the goroutine that calls Ended.
	//
	// If Ended is nil, the end of the scheduler is a failure of the playground.
	Ended func(error)
}

// NodeGroup describes a number of equal simulated nodes.
type NodeGroup struct {
	// Prefix is the prefix of the node names. The default is "node": the nodes are node-0, node-1
	// and so on. Groups with the same prefix are numbered together.
	Prefix string

	// Count is the number of nodes, 0 or more.
	Count int

	// Resources is both the capacity and the allocatable resources of each node. The default for
	// pods is 110.
	Resources corev1.ResourceList

	// Labels are added to the default labels of nodes: hostname, architecture, operating system and
	// zone. They override default labels.
	Labels map[string]string

	// Taints are the taints of each node.
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
