package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	schedulerapp "github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// question has the inputs of a decision: the objects of a cluster, and the scheduler's
// configuration.
type question struct {
	// objects includes the PodGroups that the scheduler derives for pods without a PodGroup.
	objects *inventory.Inventory
	cfg     *config.KubeSchedulerConfiguration
	// groups maps pods to their PodGroups. trees maps PodGroups to the trees that they are placed
	// with.
	groups *derived.Groups
	trees  *gang.Trees
	// unseen lists the resources that the caller may not list. If it is not empty, objects has only
	// objects of one namespace, and no decision is possible.
	unseen []string
	// namespace is the namespace of the objects if unseen is not empty; otherwise "".
	namespace string
}

// newQuestion returns a question about objects. groups has the derived groups of these objects.
func newQuestion(objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, groups *derived.Groups) (*question, error) {
	q := &question{cfg: cfg, groups: groups}
	if err := q.use(objects); err != nil {
		return nil, err
	}
	return q, nil
}

// use replaces the objects.
func (q *question) use(objects *inventory.Inventory) error {
	trees, _, err := derived.Trees(objects, q.groups)
	if err != nil {
		return err
	}
	q.objects, q.trees = objects, trees
	return nil
}

// workloads returns the mapping from pods to the groups that are placed as a unit: PodGroups, or
// trees of PodGroups.
func (q *question) workloads() gang.Membership { return q.trees.Membership(q.groups) }

// whyUnwritten returns the reason why Reprieve cannot derive a PodGroup for a pod. It returns "" if
// the PodGroup exists, or if the pod needs none.
func (q *question) whyUnwritten(pod *corev1.Pod) string {
	key, _ := q.groups.GroupOf(pod)
	for _, lacking := range q.groups.Unwritten() {
		if lacking.Key == key {
			return lacking.Why
		}
	}
	return ""
}

// gather reads the objects, from the live cluster or from a snapshot, and the configuration. It
// also derives the PodGroups that the scheduler has not written yet.
func (a *asking) gather(ctx context.Context, shown *progress) (*question, error) {
	objects, cfg, err := a.readAll(ctx, shown)
	if err != nil {
		return nil, err
	}
	completed, groups, err := derived.Complete(ctx, objects, cfg)
	if err != nil {
		return nil, fmt.Errorf("find out which pods belong together: %w", err)
	}
	return newQuestion(completed, cfg, groups)
}

// readAll reads the configuration and the objects. It includes the kinds of objects that the
// configuration names as sources of PodGroups.
func (a *asking) readAll(ctx context.Context, shown *progress) (*inventory.Inventory, *config.KubeSchedulerConfiguration, error) {
	if a.snapshot != "" {
		objects, err := a.read(ctx, shown)
		if err != nil {
			return nil, nil, err
		}
		cfg, err := a.load(ctx, objects)
		if err != nil {
			return nil, nil, usage(err)
		}
		roots, err := derived.Roots(cfg)
		if _, asked := objects.Roots(); err == nil && len(roots) > 0 && !asked {
			a.noteOnce(shown, "the snapshot is of an older version, without the objects that define groups: pods that name no PodGroup count as single pods")
		}
		a.noteUnread(shown, objects)
		return objects, cfg, err
	}
	cfg, err := schedulerapp.LoadConfig(ctx, a.configuration)
	if err != nil {
		return nil, nil, usage(err)
	}
	roots, err := derived.Roots(cfg)
	if err != nil {
		return nil, nil, usage(err)
	}
	objects, err := a.list(ctx, shown, roots)
	if err != nil {
		return nil, nil, err
	}
	a.noteUnread(shown, objects)
	return objects, cfg, nil
}

// noteUnread adds a note about kinds of pod owners that the caller may not list. Not all answers
// depend on them.
func (a *asking) noteUnread(shown *progress, objects *inventory.Inventory) {
	if unread := objects.Unread(); len(unread) > 0 {
		a.noteOnce(shown, "you may not list %s in all namespaces: which of their pods belong together is not known; ask for the ClusterRole reprieve-planner",
			strings.Join(unread, ", "))
	}
}

// noteOnce adds a note about the answer, unless the command already printed the same note.
func (a *asking) noteOnce(shown *progress, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if a.noted[line] {
		return
	}
	if a.noted == nil {
		a.noted = make(map[string]bool)
	}
	a.noted[line] = true
	shown.note("%s", line)
}

// read reads the objects from the snapshot, or from the live cluster.
func (a *asking) read(ctx context.Context, shown *progress) (*inventory.Inventory, error) {
	if a.snapshot == "" {
		return a.list(ctx, shown, nil)
	}
	shown.say("reading %s", a.snapshot)
	from, end, err := a.open(a.snapshot)
	if err != nil {
		return nil, err
	}
	defer end()
	objects, err := inventory.Read(from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.snapshot, err)
	}
	return objects, nil
}

// list reads the objects of the live cluster. roots are additional kinds to read.
func (a *asking) list(ctx context.Context, shown *progress, roots []inventory.Root) (*inventory.Inventory, error) {
	with, host, err := a.listing(roots)
	if err != nil {
		return nil, err
	}
	shown.say("asking %s", host)
	with.Progress = func(resource string, objects int) { shown.say("listing %s: %d", resource, objects) }
	objects, err := inventory.List(ctx, *with)
	return objects, a.reached(host, err)
}

// listing returns a Listing that reads from the cluster of the flags, and the address of the API
// server.
func (a *asking) listing(roots []inventory.Root) (*inventory.Listing, string, error) {
	rest, err := a.kube.ToRESTConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", &codedError{exitUnreachable, errors.New("no kubeconfig names a cluster; set --kubeconfig or KUBECONFIG, or go by a file with --snapshot")}
	}
	if err != nil {
		return nil, "", usage(fmt.Errorf("kubeconfig: %w", err))
	}
	// A command makes at most a few hundred calls. Do not limit their rate, because the server
	// limits them if necessary.
	rest.QPS = -1
	client, err := dynamic.NewForConfig(rest)
	if err != nil {
		return nil, "", usage(fmt.Errorf("kubeconfig: %w", err))
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(rest)
	if err != nil {
		return nil, "", usage(fmt.Errorf("kubeconfig: %w", err))
	}
	return &inventory.Listing{Client: client, Discovery: discoverer, Now: a.clock.Now(), Roots: roots}, rest.Host, nil
}

// reached completes an error that reports an API server that does not answer. It adds the address
// of the server, and the source of that address. It returns other errors unchanged.
func (a *asking) reached(host string, err error) error {
	if err == nil || codeOf(err) != exitUnreachable {
		return err
	}
	var notServed *inventory.NotServedError
	if errors.As(err, &notServed) {
		return err
	}
	loader := a.kube.ToRawKubeConfigLoader()
	from := strings.Join(loader.ConfigAccess().GetLoadingPrecedence(), ", ")
	if file := loader.ConfigAccess().GetExplicitFile(); file != "" {
		from = file
	}
	current := "none"
	if raw, rawErr := loader.RawConfig(); rawErr == nil && raw.CurrentContext != "" {
		current = raw.CurrentContext
	}
	if chosen := a.kube.Context; chosen != nil && *chosen != "" {
		current = *chosen
	}
	return fmt.Errorf("the API server %s does not answer (kubeconfig %s, context %s): %w", host, from, current, err)
}

// load reads the scheduler's configuration: from the file of --config, else from the snapshot, else
// the default configuration.
func (a *asking) load(ctx context.Context, objects *inventory.Inventory) (*config.KubeSchedulerConfiguration, error) {
	if a.configuration != "" || objects.Configuration == "" {
		return schedulerapp.LoadConfig(ctx, a.configuration)
	}
	file, err := os.CreateTemp("", "reprieve-config-*.yaml")
	if err != nil {
		return nil, fmt.Errorf("keep the snapshot's configuration: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString(objects.Configuration)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("keep the snapshot's configuration: %w", err)
	}
	return schedulerapp.LoadRecordedConfig(ctx, file.Name())
}

// open opens a file for reading. If name is "-", it returns standard input.
func (a *asking) open(name string) (from io.Reader, end func(), err error) {
	if name == "-" {
		return a.streams.In, func() {}, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	return file, func() { _ = file.Close() }, nil
}

// namespace returns the namespace of the flags, else of the kubeconfig's context, else "default".
func (a *asking) namespace() (string, error) {
	namespace, _, err := a.kube.ToRawKubeConfigLoader().Namespace()
	if err != nil && a.snapshot == "" {
		return "", usage(fmt.Errorf("kubeconfig: %w", err))
	}
	if namespace == "" {
		namespace = "default"
	}
	return namespace, nil
}
