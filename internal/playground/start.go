package playground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// check validates the options. It changes nothing.
func (p *Playground) check(ctx context.Context) error {
	if err := p.options.validate(); err != nil {
		return err
	}
	if path := p.options.Scheduler.Config; path != "" {
		if _, _, err := readSchedulerConfig(path); err != nil {
			return err
		}
	}
	for _, target := range []*string{&p.options.SchedulerKubeconfig, &p.options.Kubeconfig} {
		if *target == "" {
			continue
		}
		path, err := filepath.Abs(*target)
		if err != nil {
			return fmt.Errorf("write the kubeconfig: %w", err)
		}
		if err := checkKubeconfigTarget(ctx, path); err != nil {
			return err
		}
		*target = path
	}
	if err := p.findBinaries(); err != nil {
		return err
	}
	return p.findKubernetes(ctx)
}

func (p *Playground) findBinaries() error {
	found, err := newBinaries(p.options.BinDir)
	if err != nil {
		return err
	}
	p.paths = map[string]string{}
	for _, name := range []string{Etcd, APIServer, ControllerManager, Kwok} {
		if p.paths[name], err = found.find(name); err != nil {
			return err
		}
	}
	p.paths[Scheduler], err = p.schedulerPath(p.options.Scheduler)
	return err
}

// schedulerPath returns the path of the scheduler's binary. It is empty if no scheduler is wanted.
func (p *Playground) schedulerPath(options SchedulerOptions) (string, error) {
	switch options.Path {
	case NoScheduler:
		return "", nil
	case "":
		found, err := newBinaries(p.options.BinDir)
		if err != nil {
			return "", err
		}
		return found.find(schedulerBinary)
	default:
		path, err := filepath.Abs(options.Path)
		if err != nil {
			return "", err
		}
		if !isExecutable(path) {
			return "", fmt.Errorf("the scheduler %s is not an executable file", path)
		}
		return path, nil
	}
}

// open prepares the data directory and the files that the components need.
func (p *Playground) open() error {
	var err error
	if p.dir, err = openDataDir(p.options.DataDir, p.options.TempDir); err != nil {
		return err
	}
	p.env = childEnv(os.LookupEnv, p.dir.home(), p.dir.scratch())
	if p.certs, err = newCertificates(filepath.Join(p.dir.path, "pki"), p.now()); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	return nil
}

func (p *Playground) bringUp(ctx context.Context) error {
	if _, err := p.launchOnPort(ctx, func(port int) (componentSpec, error) { return p.etcdSpec(port), nil }); err != nil {
		return err
	}
	if _, err := p.launchOnPort(ctx, func(port int) (componentSpec, error) { return p.apiserverSpec(port), nil }); err != nil {
		return err
	}
	if err := p.connect(); err != nil {
		return err
	}
	if err := p.populate(ctx); err != nil {
		return err
	}
	if p.paths[Scheduler] != "" {
		if _, err := p.startScheduler(ctx, Scheduler, p.paths[Scheduler], p.options.Scheduler); err != nil {
			return err
		}
	}
	if err := p.Err(); err != nil {
		return err
	}
	if err := p.publishKubeconfig(p.schedulerKubeconfig(), p.options.SchedulerKubeconfig); err != nil {
		return err
	}
	// Write this file last, so that a process that waits for the file finds a ready playground.
	return p.publishKubeconfig(p.adminKubeconfig(), p.options.Kubeconfig)
}

// populate starts the components that need the API server, in parallel. It also creates the nodes
// and applies the manifests.
func (p *Playground) populate(ctx context.Context) error {
	version, err := p.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	nodes := buildNodes(p.options.NodeGroups, version.GitVersion)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.launch(ctx, p.controllerManagerSpec()) })
	group.Go(func() error {
		if err := p.createNodes(ctx, nodes); err != nil {
			return err
		}
		if err := p.launch(ctx, p.kwokSpec()); err != nil {
			return err
		}
		if err := p.waitNodesReady(ctx, nodes); err != nil {
			return err
		}
		p.progress(fmt.Sprintf("%d nodes are ready", len(nodes)))
		return nil
	})
	group.Go(func() error {
		if p.options.CRDs == nil {
			return nil
		}
		count, err := p.applyManifests(ctx, p.options.CRDs)
		if err != nil {
			return err
		}
		p.progress(fmt.Sprintf("%d manifests are applied", count))
		return nil
	})
	return group.Wait()
}

// connect creates the client of the playground, and the kubeconfigs for the other components.
func (p *Playground) connect() error {
	p.config = &rest.Config{
		Host: p.Component(APIServer).URL(),
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   p.certs.authority.pem,
			CertData: p.certs.admin.certPEM,
			KeyData:  p.certs.admin.keyPEM,
		},
		QPS:   clientQPS,
		Burst: clientBurst,
	}
	// Use Protobuf, which costs less than JSON with thousands of nodes.
	config := rest.CopyConfig(p.config)
	config.ContentType = runtime.ContentTypeProtobuf
	var err error
	if p.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if err := p.WriteKubeconfig(p.adminKubeconfig(), ""); err != nil {
		return err
	}
	config = p.RESTConfig()
	config.CertData, config.KeyData = p.certs.scheduler.certPEM, p.certs.scheduler.keyPEM
	content, err := encodeKubeconfig(config)
	if err != nil {
		return err
	}
	return writeFileAtomically(p.schedulerKubeconfig(), content)
}

func (p *Playground) adminKubeconfig() string {
	return filepath.Join(p.dir.path, "admin.kubeconfig")
}

func (p *Playground) schedulerKubeconfig() string {
	return filepath.Join(p.dir.path, "scheduler.kubeconfig")
}

// publishKubeconfig copies a kubeconfig of the playground to a file that the user has named. If
// that name is empty, it does nothing.
func (p *Playground) publishKubeconfig(from, to string) error {
	if to == "" {
		return nil
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := writeFileAtomically(to, content); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	p.published[to] = content
	return nil
}

func (p *Playground) startScheduler(ctx context.Context, name, path string, options SchedulerOptions) (*Component, error) {
	return p.launchOnPort(ctx, func(port int) (componentSpec, error) {
		return p.schedulerSpec(name, path, options, port)
	})
}

// launchOnPort starts a component that serves on a port. If another process takes the port, it
// tries another port.
func (p *Playground) launchOnPort(ctx context.Context, build func(port int) (componentSpec, error)) (*Component, error) {
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		spec, err := build(port)
		if err != nil {
			return nil, err
		}
		c, err := p.launchComponent(ctx, spec)
		if attempt == portAttempts || !errors.Is(err, errPortTaken) {
			return c, err
		}
	}
}

func (p *Playground) launch(ctx context.Context, spec componentSpec) error {
	_, err := p.launchComponent(ctx, spec)
	return err
}

// launchComponent adds a component to the playground and starts it. If the start fails, it removes
// the component.
func (p *Playground) launchComponent(ctx context.Context, spec componentSpec) (*Component, error) {
	spec.env = p.env
	spec.logPath = p.dir.logPath(spec.name)
	spec.args = slices.Concat(spec.args, p.options.ExtraArgs[spec.name])
	if spec.ended == nil {
		spec.ended = p.fail
	}
	c := &Component{spec: spec, spawner: p.spawner, died: spec.ended, closing: make(chan struct{})}
	if err := p.add(c); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.name, err)
	}
	began := p.now()
	if err := c.Start(ctx); err != nil {
		p.remove(c)
		return nil, err
	}
	p.progress(fmt.Sprintf("%s is up after %.1f s", spec.name, p.now().Sub(began).Seconds()))
	return c, nil
}

func (p *Playground) add(c *Component) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return errStopped
	}
	for _, other := range p.components {
		if other.Name() == c.Name() {
			return errors.New("there is a component of that name already")
		}
	}
	p.components = append(p.components, c)
	return nil
}

func (p *Playground) remove(c *Component) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.components = slices.DeleteFunc(p.components, func(other *Component) bool { return other == c })
}
