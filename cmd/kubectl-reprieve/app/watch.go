package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

const (
	// lookEvery is how long why --watch goes without looking where nothing tells of a change, and
	// retryEvery where the API server does not answer.
	lookEvery  = 15 * time.Second
	retryEvery = 2 * time.Second
	// restFor is how long it goes without looking at least, whatever changes: each look lists the
	// whole cluster. And settleFor is how long it waits for more after a change: members of a gang
	// change together.
	restFor   = 5 * time.Second
	settleFor = 500 * time.Millisecond
	// refusedFor is how long the watch tolerates a refusal that would otherwise end it. An API
	// server that has just started may not know all permissions and resources yet.
	refusedFor = time.Minute
)

// watchWhy repeats the answer of why until the work runs or is gone, and shows the changes.
func (a *asking) watchWhy(ctx context.Context, name string, options *whyOptions) error {
	answer, err := a.why(ctx, name, options)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	w := &watching{asking: a}
	if err := w.tell(answer); err != nil {
		return err
	}
	within, stop := context.WithCancel(ctx)
	var watches sync.WaitGroup
	defer watches.Wait()
	defer stop()
	changed, err := w.changes(within, &watches, answer.about.key.Namespace)
	if err != nil {
		return err
	}
	for {
		if over, err := ended(answer); over {
			return err
		}
		if err := w.pause(ctx, changed); err != nil {
			return err
		}
		next, err := a.why(ctx, name, options)
		if err := w.endures(ctx, err); err != nil {
			return err
		}
		if next == nil {
			continue
		}
		answer = next
		if err := w.tell(answer); err != nil {
			return err
		}
	}
}

// ended reports whether there is nothing more to follow, and returns the error to end with.
func ended(answer *whyAnswer) (bool, error) {
	switch {
	case !answer.exists:
		return true, notFound(fmt.Errorf("%s is gone", answer.Subject))
	case answer.enough, answer.State == stateRunning, answer.State == stateFinished:
		return true, nil
	default:
		return false, nil
	}
}

// interruptedOr is how an error ends the command: where it was interrupted, that is why.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// watching is a why --watch under way.
type watching struct {
	*asking
	// said has the lines of the last answer, without the parts that change all the time.
	said []string
	// failing is since when the API server has not answered; zero while it does.
	failing time.Time
	// seen has the objects that the last look found.
	seen atomic.Pointer[parts]
}

// growing matches numbers that grow while nothing changes.
var growing = regexp.MustCompile(`[<0-9.]+ GPU-hours`)

// tell writes the first answer in full, and then the new lines of later answers, with the time. In
// JSON and YAML it writes each changed answer in full. It then watches the objects of the answer.
func (w *watching) tell(answer *whyAnswer) error {
	var text bytes.Buffer
	w.showWhy(&text, answer, w.format == formatWide)
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	keys := make([]string, len(lines))
	var news []string
	for i, line := range lines {
		keys[i] = growing.ReplaceAllString(line, "GPU-hours")
		if !slices.Contains(w.said, keys[i]) {
			news = append(news, line)
		}
	}
	first := w.said == nil
	w.said = keys
	w.seen.Store(answer.about.parts())
	if first || w.format == formatJSON || w.format == formatYAML {
		if len(news) == 0 {
			return nil
		}
		return w.writeWhy(answer)
	}
	for _, line := range news {
		if _, err := fmt.Fprintf(w.streams.Out, "%s %s\n", answer.Taken.UTC().Format(time.RFC3339), line); err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
	}
	return nil
}

// pause waits after a look until something has changed, or for as long as it may go without
// looking.
func (w *watching) pause(ctx context.Context, changed <-chan struct{}) error {
	looked, most := w.clock.Now(), lookEvery
	if !w.failing.IsZero() {
		most, changed = retryEvery, nil
	}
	timer := w.clock.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errInterrupted
	case <-timer.C():
		return nil
	case <-changed:
	}
	timer.Reset(max(settleFor, restFor-w.clock.Since(looked)))
	select {
	case <-ctx.Done():
		return errInterrupted
	case <-timer.C():
	}
	// The next look also sees the changes in between.
	select {
	case <-changed:
	default:
	}
	return nil
}

// endures says once that the API server does not answer, and once that it does again. It returns
// the errors that the command ends with.
func (w *watching) endures(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	now := w.clock.Now()
	switch code := codeOf(err); {
	case err == nil:
		if !w.failing.IsZero() {
			fmt.Fprintln(w.streams.ErrOut, "The API server answers again.")
		}
		w.failing = time.Time{}
		return nil
	case code == exitNotFound || code == exitUsage:
		return err
	case code == exitForbidden && !w.failing.IsZero() && now.Sub(w.failing) > refusedFor:
		return err
	}
	if w.failing.IsZero() {
		w.failing = now
		fmt.Fprintf(w.streams.ErrOut, "Trying again: %s\n", oneLine(err))
	}
	return nil
}

// changes signals changes of the seen objects of the work in its namespace until ctx is done. The
// caller waits for watches before it drops them.
func (w *watching) changes(ctx context.Context, watches *sync.WaitGroup, namespace string) (<-chan struct{}, error) {
	rest, err := w.kube.ToRESTConfig()
	if err != nil {
		return nil, usage(fmt.Errorf("kubeconfig: %w", err))
	}
	client, err := dynamic.NewForConfig(rest)
	if err != nil {
		return nil, usage(fmt.Errorf("kubeconfig: %w", err))
	}
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	for _, resource := range []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("pods"), v1alpha1.SchemeGroupVersion.WithResource("podgroups"),
	} {
		watches.Go(func() { w.watchAll(ctx, client.Resource(resource).Namespace(namespace), signal) })
	}
	return changed, nil
}

// watchAll signals changes of objects that are parts of the work. It restarts a watch that ends;
// the next look finds the changes in between. A caller without permission to watch relies on these
// looks alone. A watch that has worked may be refused for a while by an API server that has just
// started.
func (w *watching) watchAll(ctx context.Context, from dynamic.ResourceInterface, signal func()) {
	for worked := false; ctx.Err() == nil; {
		stream, err := from.Watch(ctx, metav1.ListOptions{})
		if !worked && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) {
			return
		}
		if err == nil {
			worked = true
			for event := range stream.ResultChan() {
				if object, ok := event.Object.(*unstructured.Unstructured); !ok || w.seen.Load().have(object) {
					signal()
				}
			}
			stream.Stop()
		}
		timer := w.clock.NewTimer(retryEvery)
		select {
		case <-ctx.Done():
		case <-timer.C():
			signal()
		}
		timer.Stop()
	}
}

// errInterrupted has the command end as one does that is interrupted, with nothing more to say.
var errInterrupted = errors.New("interrupted")
