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
	// lookEvery is the time between two reads of the cluster by why --watch if no change is seen.
	lookEvery = 15 * time.Second
	// retryEvery is the time between two reads while the API server does not answer.
	retryEvery = 2 * time.Second
	// restFor is the minimum time between two reads while the API server answers, because each read
	// lists the whole cluster.
	restFor = 5 * time.Second
	// settleFor is the time between a change and the next read. Members of a gang often change
	// together, so more changes may follow.
	settleFor = 500 * time.Millisecond
	// refusedFor is the time that the watch tolerates the refusal of its reads. After that time, a
	// refusal ends the watch. An API server that has just started may not know all permissions and
	// resources yet.
	refusedFor = time.Minute
)

// watchWhy prints the answer of why, and then its changes, until the work runs or is gone.
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

// ended reports whether the watch must end after an answer, and returns the error of the command.
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

// interruptedOr returns errInterrupted if the command was interrupted, and err otherwise.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// watching is the state of why --watch.
type watching struct {
	*asking
	// said has the lines of the last answer, without numbers that change constantly.
	said []string
	// failing is the time when the API server stopped answering; zero while it answers.
	failing time.Time
	// seen has the objects of the work at the last read of the cluster.
	seen atomic.Pointer[parts]
}

// growing matches the numbers in an answer that grow even if no object changes.
var growing = regexp.MustCompile(`[<0-9.]+ GPU-hours`)

// tell prints an answer. It prints the first answer in full. Of each later answer, it prints only
// new lines, with the time. In JSON and YAML, it prints each changed answer in full. tell also sets
// seen.
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

// pause waits until the next read of the cluster is due: soon after a change, otherwise after
// lookEvery.
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
	// Drop the signal of a change during the wait, because the next read includes that change.
	select {
	case <-changed:
	default:
	}
	return nil
}

// endures handles the error of a read. It prints a line when the API server stops answering, and a
// line when the server answers again. It returns an error if the command must end.
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

// changes starts watches and returns a channel that signals changes of the work's objects, until
// ctx is done. The caller must wait for the goroutines in watches.
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
		v1alpha1.SchemeGroupVersion.WithResource("compositepodgroups"),
	} {
		watches.Go(func() { w.watchAll(ctx, client.Resource(resource).Namespace(namespace), signal) })
	}
	return changed, nil
}

// watchAll calls signal when an object of the work changes. If the watch ends, watchAll restarts it
// and calls signal, because it may have missed changes. If the first watch is forbidden or not
// found, watchAll returns: the command then relies on regular reads of the cluster.
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

// errInterrupted ends the command with exitInterrupted. Run prints no message for this error.
var errInterrupted = errors.New("interrupted")
