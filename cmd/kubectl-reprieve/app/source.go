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

// question has the inputs of a decision: the objects, and the scheduler's configuration.
type question struct {
	// objects includes the PodGroups that the scheduler derives for pods without a PodGroup.
	objects *inventory.Inventory
	cfg     *config.KubeSchedulerConfiguration
	// groups knows which pods share a PodGroup, and trees which PodGroups are placed together.
	groups *derived.Groups
	trees  *gang.Trees
	// unseen lists the resources that the caller has no permission to list. If there are any,
	// objects has the permitted objects of one namespace, and no decision is computed.
	unseen []string
	// namespace is the namespace of the objects if there are unseen resources; "" for all.
	namespace string
}

// newQuestion returns a question about objects. groups has their derived groups.
func newQuestion(objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, groups *derived.Groups) (*question, error) {
	q := &question{cfg: cfg, groups: groups}
	if err := q.use(objects); err != nil {
		return nil, err
	}
	return q, nil
}

// use replaces the objects.
func (q *question) use(objects *inventory.Inventory) error {
	trees, _, err := derived.Trees(objects)
	if err != nil {
		return err
	}
	q.objects, q.trees = objects, trees
	return nil
}

// workloads is the Membership of pods in the groups that are placed as one: PodGroups, and trees.
func (q *question) workloads() gang.Membership { return q.trees.Membership(q.groups) }

// whyUnwritten returns the reason why no PodGroup can be derived for the owner of a pod. It returns
// "" if a PodGroup exists or is not needed.
func (q *question) whyUnwritten(pod *corev1.Pod) string {
	key, _ := q.groups.GroupOf(pod)
	for _, lacking := range q.groups.Unwritten() {
		if lacking.Key == key {
			return lacking.Why
		}
	}
	return ""
}

// gather reads the objects, live or from a file, and the configuration.
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

// readAll reads the configuration and the objects. The configuration names the kinds of objects
// that define groups, and these are read too.
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

// noteUnread notes the missing permissions that only some answers need.
func (a *asking) noteUnread(shown *progress, objects *inventory.Inventory) {
	if unread := objects.Unread(); len(unread) > 0 {
		a.noteOnce(shown, "you may not list %s in all namespaces: which of their pods belong together is not known; ask for the ClusterRole reprieve-planner",
			strings.Join(unread, ", "))
	}
}

// noteOnce adds a note about the answers, unless the same note was already shown.
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

// read reads the objects.
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

// list reads the objects of the live cluster, and the objects of further kinds.
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

// listing returns a Listing for the cluster that the flags name, and the address of its API server.
func (a *asking) listing(roots []inventory.Root) (*inventory.Listing, string, error) {
	rest, err := a.kube.ToRESTConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", &codedError{exitUnreachable, errors.New("no kubeconfig names a cluster; set --kubeconfig or KUBECONFIG, or go by a file with --snapshot")}
	}
	if err != nil {
		return nil, "", usage(fmt.Errorf("kubeconfig: %w", err))
	}
	// A command makes a few hundred calls at most. The limits of the server slow them down if
	// necessary.
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

// reached adds the address of the API server, and the source of that address, to the error of a
// call that the server did not answer.
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

// load reads the configuration of --config, else the configuration in the snapshot, else the
// default.
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

// open opens a file, or standard input for -.
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

// namespace returns the namespace of the flags, or of the kubeconfig's context, or default.
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
