package playground

import (
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
)

// These are the names of the components in Component, Options.ExtraArgs and error messages.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Kwok              = "kwok"
	Scheduler         = "scheduler"
)

// NoScheduler as SchedulerOptions.Path runs no scheduler.
const NoScheduler = "none"

// schedulerBinary is the file name of the scheduler that runs if no path is given.
const schedulerBinary = "reprieve-scheduler"

// RunForAnnotation on a pod ends the pod in phase Succeeded after it has run for that time. The
// value is a duration in hours, minutes and seconds, such as "30s" or "1h30m". Without the
// annotation, a pod runs until it is deleted.
const RunForAnnotation = "playground.reprieve.dev/run-for"

// Options are the settings of a Playground. The zero value is a control plane without nodes, with
// the scheduler that is next to the running binary.
type Options struct {
	// BinDir is the directory of the component binaries. If it is empty, the directory of the
	// running executable and then PATH are searched.
	BinDir string

	// DataDir keeps etcd's data, the certificate authorities and the logs. A later Start with the
	// same directory finds the same cluster state. Start creates the directory if necessary. If
	// DataDir is empty, Start uses a temporary directory, and Stop removes it.
	DataDir string

	// TempDir is the parent of the temporary data directory. If it is empty, the system's directory
	// for temporary files is used.
	TempDir string

	// Kubeconfig is a file to write the admin kubeconfig to. Stop removes it. If it is empty, the
	// kubeconfig is only in the data directory.
	Kubeconfig string

	// SchedulerKubeconfig is a file to write a kubeconfig to, for a scheduler that the user starts.
	// It has all rights, and a user name that the admission policies of deploy/ accept. Stop
	// removes it. If it is empty, the kubeconfig is only in the data directory.
	SchedulerKubeconfig string

	// NodeGroups are the simulated nodes to create. Nodes that already exist in a kept data
	// directory do not change.
	NodeGroups []NodeGroup

	// CRDs holds manifests in files that end in .yaml, in any directory. Start applies them to the
	// API server, and the CustomResourceDefinitions first. Nil applies nothing.
	CRDs fs.FS

	// Scheduler is the scheduler that Start runs.
	Scheduler SchedulerOptions

	// Controllers is the value of kube-controller-manager's --controllers. If it is empty, the
	// default controllers run.
	Controllers []string

	// NativeWorkloadAPI turns on the Workloads and PodGroups of scheduling.k8s.io, with all fields
	// for preemption. They are off by default. Their API version is the version of the Kubernetes
	// release. Before Kubernetes 1.35, Start returns ErrNoWorkloadAPI.
	NativeWorkloadAPI bool

	// AuditPolicy is an audit policy, as YAML. The API server records requests by it in
	// [Playground.AuditLog]. If it is empty, the API server records no requests.
	AuditPolicy string

	// ExtraArgs are command-line arguments by component name. They come last, so they override the
	// playground's own arguments.
	ExtraArgs map[string][]string

	// Progress is called with one short line for each completed step. The calls come from the
	// goroutine of Start or Stop, or from another goroutine that Start or Stop waits for. Two calls
	// never overlap. Nil is allowed.
	Progress func(step string)
}

// SchedulerOptions are the settings of a scheduler.
type SchedulerOptions struct {
	// Path is the scheduler binary. If it is empty, the directories of the other binaries are
	// searched for reprieve-scheduler. NoScheduler runs no scheduler.
	Path string

	// Config is a KubeSchedulerConfiguration file. If its clientConnection.kubeconfig is empty, the
	// scheduler gets a copy that names Kubeconfig.
	Config string

	// Kubeconfig is the scheduler's kubeconfig. If it is empty, the scheduler has all rights, under
	// its user name in a cluster with deploy/. The admission policies of deploy/ accept that user.
	Kubeconfig string

	// Args are command-line arguments that come last.
	Args []string

	// Ended is called with an *ExitError when the scheduler ends by itself after it was ready. For
	// example, a leader ends that cannot renew its lease. The end does not count as a death, and
	// the scheduler may be started again, but not by the goroutine of the call. With nil, the
	// playground fails.
	Ended func(error)
}

// NodeGroup is a number of equal simulated nodes.
type NodeGroup struct {
	// Prefix is the prefix of the nodes' names. If it is empty, it is "node", and the nodes are
	// node-0, node-1 and so on. Groups with the same prefix share one count.
	Prefix string

	// Count is the number of nodes, 0 or more.
	Count int

	// Resources is the capacity and the allocatable of each node. The default for pods is 110.
	Resources corev1.ResourceList

	// Labels are added to the labels that every node has: hostname, architecture, operating system
	// and zone. They override those labels.
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
