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
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

const (
	// lookEvery is how long why --watch goes without looking where nothing tells of a change, and retryEvery where the API server
	// does not answer.
	lookEvery  = 15 * time.Second
	retryEvery = 2 * time.Second
	// settleFor is how long it waits for more after a change: members of a gang change together.
	settleFor = 500 * time.Millisecond
	// refusedFor is how long it puts up with an answer that it would end with otherwise: an API server that has just started may
	// not know yet who may do what, nor all that it serves.
	refusedFor = time.Minute
)

// watchWhy answers why again and again until the work runs or is gone, and says what has changed.
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
	changed, err := w.changes(within, &watches, name)
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

// ended reports whether there is nothing more to follow, and with which error that ends.
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
	// said are the lines of the last answer, without what changes all the time.
	said []string
	// failing is since when the API server has not answered; zero while it does.
	failing time.Time
}

// growing is what grows while nothing changes.
var growing = regexp.MustCompile(`[<0-9.]+ GPU-hours`)

// tell writes the first answer whole, and of later ones the lines that are new, with the time. In JSON and YAML, an answer in which
// something is new is written whole.
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

// pause waits until something has changed, or for as long as it may go without looking.
func (w *watching) pause(ctx context.Context, changed <-chan struct{}) error {
	most := lookEvery
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
	timer.Reset(settleFor)
	select {
	case <-ctx.Done():
		return errInterrupted
	case <-timer.C():
		return nil
	}
}

// endures says once that the API server does not answer, and once that it does again. It returns the errors that the command ends with.
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

// changes tells of changes of the work's pods and PodGroups for as long as ctx lives. The caller waits for watches before it
// forgets about them.
func (w *watching) changes(ctx context.Context, watches *sync.WaitGroup, name string) (<-chan struct{}, error) {
	namespace, err := w.namespace()
	if err != nil {
		return nil, err
	}
	about, err := parseSubject(name, namespace)
	if err != nil {
		return nil, err
	}
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
		watches.Go(func() { w.watchAll(ctx, client.Resource(resource).Namespace(about.key.Namespace), about, signal) })
	}
	return changed, nil
}

// watchAll signals changes of objects that may be the subject's. A watch that ends is begun again: what has changed meanwhile is
// found by looking, and so is everything where the caller may not watch. One that has worked may be refused for a while: by an API
// server that has just started.
func (w *watching) watchAll(ctx context.Context, from dynamic.ResourceInterface, about *subject, signal func()) {
	for worked := false; ctx.Err() == nil; {
		stream, err := from.Watch(ctx, metav1.ListOptions{})
		if !worked && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) {
			return
		}
		if err == nil {
			worked = true
			for event := range stream.ResultChan() {
				if object, ok := event.Object.(*unstructured.Unstructured); !ok || about.mayHave(object) {
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

// mayHave reports whether an object may be a part of the subject. Which group a pod is in that names none is not known here: it may be
// any.
func (s *subject) mayHave(object *unstructured.Unstructured) bool {
	if object.GetKind() != "Pod" {
		return s.kind != "PodGroup" || object.GetName() == s.key.Name
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), Labels: object.GetLabels(), OwnerReferences: object.GetOwnerReferences(),
	}}
	if group, found, _ := unstructured.NestedString(object.Object, "spec", "schedulingGroup", "podGroupName"); found {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	}
	group, named := gang.GroupOf(pod)
	switch s.kind {
	case "PodGroup":
		return !named || group == s.key
	case "Pod":
		// It may be of a gang that changes with its other members.
		return named || pod.Name == s.key.Name || len(pod.OwnerReferences) > 0
	default:
		return s.has(pod)
	}
}

// errInterrupted has the command end as one does that is interrupted, with nothing more to say.
var errInterrupted = errors.New("interrupted")
