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
	// clientQPS and clientBurst are much higher than the request rate of a test or a user.
	clientQPS   = 1000
	clientBurst = 2000
)

// Playground is a running control plane. It is safe for concurrent use.
type Playground struct {
	options Options
	now     func() time.Time
	dir     *dataDir
	certs   *certificates
	paths   map[string]string
	// release is set only if the options need a feature that some Kubernetes versions lack.
	release Kubernetes
	env     []string
	spawner *spawner
	client  kubernetes.Interface
	config  *rest.Config
	// published maps the path of each file that was written for the user to the file's content.
	published map[string][]byte

	// abort cancels the context of Start.
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

// Start starts a playground and returns when pods can be created and scheduled. At that time the
// API server, the nodes and the scheduler are ready, and the manifests are applied.
//
// ctx limits only the start. The components run until Stop. If Start fails, it removes everything
// that it created.
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
		// A component has died and caused the other errors. Stop returns the component's error.
		return nil, p.Stop()
	}
	return p, nil
}

// RESTConfig returns a new client configuration with all rights and a very high rate limit.
func (p *Playground) RESTConfig() *rest.Config { return rest.CopyConfig(p.config) }

// Kubeconfig returns the path of the admin kubeconfig. This is Options.Kubeconfig, or a file in the
// data directory if that option is empty.
func (p *Playground) Kubeconfig() string {
	if p.options.Kubeconfig != "" {
		return p.options.Kubeconfig
	}
	return p.adminKubeconfig()
}

// SchedulerKubeconfig returns the path of the kubeconfig for a scheduler. This is
// Options.SchedulerKubeconfig, or a file in the data directory if that option is empty.
func (p *Playground) SchedulerKubeconfig() string {
	if p.options.SchedulerKubeconfig != "" {
		return p.options.SchedulerKubeconfig
	}
	return p.schedulerKubeconfig()
}

// DataDir returns the path of the data directory.
func (p *Playground) DataDir() string { return p.dir.path }

// Component returns the component with the given name. It returns nil if there is none.
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

// Components returns all components in the order of their starts.
func (p *Playground) Components() []*Component {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.components)
}

// Done returns a channel that is closed when a component has failed or when Stop has ended all
// components.
func (p *Playground) Done() <-chan struct{} { return p.done }

// Err returns an *ExitError for the first component that ended on its own, or nil if there is none.
// The effects of Component.Kill and Stop are not errors.
func (p *Playground) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// StartScheduler starts another scheduler as a component with the given name, and returns when it
// is ready. ctx limits only the start. The scheduler runs until Stop.
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

// WriteKubeconfig writes a kubeconfig for this playground's API server to path. Its user is the
// owner of the bearer token, or the admin if token is empty. The caller must remove the file.
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

// Stop ends all components, in the reverse order of their starts. Then it removes the user's
// kubeconfigs and the temporary data directory. The error of Stop includes the end of a component
// that had ended on its own. It also names each component and file that Stop could not end or
// remove. Later calls wait for the first call and return its error.
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
	// All components have ended, so p.Err cannot change any more.
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

// fail records that a component ended on its own. Only the first such end is kept, because it
// usually causes the later ones.
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
