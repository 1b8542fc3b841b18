package playground

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// clientQPS and clientBurst are far above what a test or a user sends.
	clientQPS   = 1000
	clientBurst = 2000
)

// Playground is a running control plane. Its methods may be called from any goroutine.
type Playground struct {
	options Options
	now     func() time.Time
	dir     *dataDir
	certs   *certificates
	paths   map[string]string
	// release is known where the options ask for what not every version has.
	release Kubernetes
	env     []string
	spawner *spawner
	client  kubernetes.Interface
	config  *rest.Config
	// published has the content of the files for the user that have been written, by path.
	published map[string][]byte

	// abort ends what Start still waits for.
	abort context.CancelCauseFunc

	mu         sync.Mutex
	components []*Component
	stopped    bool
	err        error

	done       chan struct{}
	doneOnce   sync.Once
	stopOnce   sync.Once
	stopErr    error
	progressMu sync.Mutex
}

// Start brings a playground up and returns once pods can be created and scheduled: the API server is ready, the manifests
// are applied, the nodes are ready, and the scheduler is, if there is to be one.
//
// ctx bounds the start alone; what was started runs until Stop. When Start fails, nothing is left of it.
func Start(ctx context.Context, options Options) (*Playground, error) {
	p := &Playground{options: options, now: time.Now, published: map[string][]byte{}, done: make(chan struct{})}
	if err := p.check(ctx); err != nil {
		return nil, err
	}
	if err := p.open(); err != nil {
		return nil, errors.Join(err, p.closeFiles())
	}
	p.spawner = newSpawner()
	startCtx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	p.abort = abort
	if err := p.bringUp(startCtx); err != nil {
		if p.Err() == nil {
			return nil, errors.Join(err, p.Stop())
		}
		// What else failed, failed because a component had died; Stop reports that one.
		return nil, p.Stop()
	}
	return p, nil
}

// RESTConfig is a client configuration with all rights and a rate limit that is not felt. Each call returns a new one.
func (p *Playground) RESTConfig() *rest.Config { return rest.CopyConfig(p.config) }

// Kubeconfig is the path of the admin kubeconfig: Options.Kubeconfig if that was given, else a file in the data directory.
func (p *Playground) Kubeconfig() string {
	if p.options.Kubeconfig != "" {
		return p.options.Kubeconfig
	}
	return p.adminKubeconfig()
}

// SchedulerKubeconfig is the path of the kubeconfig for a scheduler: Options.SchedulerKubeconfig if that was given,
// else a file in the data directory.
func (p *Playground) SchedulerKubeconfig() string {
	if p.options.SchedulerKubeconfig != "" {
		return p.options.SchedulerKubeconfig
	}
	return p.schedulerKubeconfig()
}

// DataDir is the directory with all the playground's files.
func (p *Playground) DataDir() string { return p.dir.path }

// Component returns the component of that name, or nil if there is none.
func (p *Playground) Component(name string) *Component {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.components {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// Components returns all components in the order they were started in.
func (p *Playground) Components() []*Component {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.components)
}

// Done is closed when a component has died, or else when Stop has been called.
func (p *Playground) Done() <-chan struct{} { return p.done }

// Err is nil while all is well, and once a component has died an *ExitError for the first that did. Ends brought about by
// Component.Kill or Stop do not count.
func (p *Playground) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// StartScheduler runs one more scheduler under a component name of its own, and returns once it is ready. The process
// does not end with ctx but with Stop.
func (p *Playground) StartScheduler(ctx context.Context, name string, options SchedulerOptions) (*Component, error) {
	path, err := p.schedulerPath(options)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, errors.New("start a scheduler: its path is " + NoScheduler)
	}
	return p.startScheduler(ctx, name, path, options)
}

// WriteKubeconfig writes a kubeconfig for this playground's API server to path: for the holder of the bearer token, or
// for the admin when token is empty. The file is the caller's to remove.
func (p *Playground) WriteKubeconfig(path, token string) error {
	config := p.RESTConfig()
	if token != "" {
		config.BearerToken, config.CertData, config.KeyData = token, nil, nil
	}
	content, err := encodeKubeconfig(config)
	if err != nil {
		return err
	}
	return writeFileAtomically(path, content)
}

// Stop ends all components, in the reverse of the order they were started in, and removes the files: the user's kubeconfigs, and
// the temporary data directory. It returns what failed: the component that had died, if one had, and whatever did not
// end or could not be removed. Later calls wait for the first and return the same.
func (p *Playground) Stop() error {
	p.stopOnce.Do(func() { p.stopErr = p.stop() })
	return p.stopErr
}

func (p *Playground) stop() error {
	p.mu.Lock()
	p.stopped = true
	components := slices.Clone(p.components)
	p.mu.Unlock()

	var errs []error
	for _, c := range slices.Backward(components) {
		errs = append(errs, c.close(syscall.SIGTERM))
	}
	// Only now is it certain that nobody reports a death any more.
	errs = slices.Insert(errs, 0, p.Err())
	p.spawner.close()
	p.doneOnce.Do(func() { close(p.done) })
	errs = append(errs, p.closeFiles())
	p.progress("all components have ended")
	return errors.Join(errs...)
}

func (p *Playground) closeFiles() error {
	var errs []error
	for path, content := range p.published {
		errs = append(errs, removeFileIfSame(path, content))
	}
	if p.dir != nil {
		errs = append(errs, p.dir.close())
	}
	return errors.Join(errs...)
}

// fail records the death of a component. Only the first counts: those that follow are mostly of its making.
func (p *Playground) fail(err error) {
	p.mu.Lock()
	if p.err == nil && !p.stopped {
		p.err = err
	}
	p.mu.Unlock()
	p.abort(err)
	p.doneOnce.Do(func() { close(p.done) })
}

func (p *Playground) progress(step string) {
	if p.options.Progress == nil {
		return
	}
	p.progressMu.Lock()
	defer p.progressMu.Unlock()
	p.options.Progress(step)
}
