package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

// These constants name the objects of the example.
const (
	appLabel     = "app"
	serving      = "serving"
	servingCount = 8
	low          = "training"
	lowCount     = 6
	high         = "urgent"
	highCount    = 4
)

// play runs the example and returns an error if an expected event does not happen.
func play(ctx context.Context, p *playground.Playground, example fs.FS, out *narrator) error {
	s, err := watch(ctx, p.RESTConfig(), out)
	if err != nil {
		return err
	}
	out.title("A service of %d pods of one GPU, and a training gang of %d pods of six", servingCount, lowCount)
	if err := applyFiles(ctx, p, example, "01-*.yaml", "02-*.yaml"); err != nil {
		return err
	}
	if err := s.wait(ctx, "the service does not run", s.running(appLabel, serving, servingCount)); err != nil {
		return err
	}
	if err := applyFiles(ctx, p, example, "03-*.yaml"); err != nil {
		return err
	}
	if err := s.wait(ctx, "the training does not run", s.running(v1alpha1.LabelPodGroup, low, lowCount)); err != nil {
		return err
	}
	before := s.cast()
	out.title("An urgent gang of %d pods of six GPUs arrives; two nodes have that much room", highCount)
	if err := applyFiles(ctx, p, example, "04-*.yaml"); err != nil {
		return err
	}
	if err := s.wait(ctx, "the urgent gang does not run", s.running(v1alpha1.LabelPodGroup, high, highCount)); err != nil {
		return err
	}
	if err := s.wait(ctx, "the training is not gone whole", s.takenWhole(before[low])); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.classless {
		return errors.New("a PodGroup was told that its PriorityClass is missing, which the demo had applied before")
	}
	if err := s.untouched(before[serving]); err != nil {
		return fmt.Errorf("the service was disturbed: %w", err)
	}
	if err := s.running(v1alpha1.LabelPodGroup, high, highCount)(); err != nil {
		return fmt.Errorf("the urgent gang does not run any more: %w", err)
	}
	out.title("Who runs where, who was taken, and why")
	s.table(out, before)
	out.title("The training went whole, the service was not touched, the urgent gang runs whole")
	return nil
}

// applyFiles applies the files of the example whose names match a pattern. It applies the files in
// the order of the patterns.
func applyFiles(ctx context.Context, p *playground.Playground, example fs.FS, patterns ...string) error {
	for _, pattern := range patterns {
		names, err := fs.Glob(example, pattern)
		if err != nil || len(names) == 0 {
			return fmt.Errorf("the example has no %s: %w", pattern, cmp.Or(err, fs.ErrNotExist))
		}
		for _, name := range names {
			if err := p.Apply(ctx, only{FS: example, name: name}); err != nil {
				return fmt.Errorf("apply %s: %w", name, err)
			}
		}
	}
	return nil
}

// only is a file system with a single file of another file system.
type only struct {
	fs.FS
	name string
}

// ReadDir returns at most one entry: the file of o.
func (o only) ReadDir(dir string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(o.FS, dir)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() != o.name }), err
}

// running returns a predicate for wait. The predicate returns an error until count pods with the
// label run.
func (s *stage) running(label, value string, count int) func() error {
	return func() error {
		running := 0
		for _, pod := range s.live(label, value) {
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				running++
			}
		}
		if running != count {
			return fmt.Errorf("%d of %d pods of %s run", running, count, value)
		}
		return nil
	}
}

// cast returns the UIDs of the pods that exist now. The keys are the names of the service and of
// the training gang.
func (s *stage) cast() map[string][]types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string][]types.UID)
	for _, pod := range s.live(appLabel, serving) {
		out[serving] = append(out[serving], pod.UID)
	}
	for _, pod := range s.live(v1alpha1.LabelPodGroup, low) {
		out[low] = append(out[low], pod.UID)
	}
	return out
}

// takenWhole returns a predicate for wait. The predicate returns an error until the scheduler has
// preempted all pods with the UIDs. A preempted pod has the reason in its status, and terminates or
// is deleted.
func (s *stage) takenWhole(uids []types.UID) func() error {
	return func() error {
		for _, uid := range uids {
			pod := s.pods[uid]
			c := disruption(pod)
			switch {
			case pod.DeletionTimestamp == nil && !s.gone[uid]:
				return fmt.Errorf("pod %s stays", pod.Name)
			case c == nil || c.Reason != corev1.PodReasonPreemptionByScheduler || !strings.Contains(c.Message, high):
				return fmt.Errorf("pod %s does not name its preemptor", pod.Name)
			}
		}
		return nil
	}
}

// untouched returns an error unless all pods with the UIDs still run, without the condition
// DisruptionTarget.
func (s *stage) untouched(uids []types.UID) error {
	for _, uid := range uids {
		pod := s.pods[uid]
		if s.gone[uid] || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s does not run any more", pod.Name)
		}
		if disruption(pod) != nil {
			return fmt.Errorf("pod %s was to be disrupted", pod.Name)
		}
	}
	return nil
}

// table prints the pods that run on each node, and then the preempted pods.
func (s *stage) table(out *narrator, before map[string][]types.UID) {
	nodes := make(map[string][]string)
	for uid, pod := range s.pods {
		if !s.gone[uid] && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			nodes[pod.Spec.NodeName] = append(nodes[pod.Spec.NodeName], pod.Name)
		}
	}
	w := tabwriter.NewWriter(out.out, 2, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "  NODE\tRUNS")
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		slices.Sort(nodes[name])
		_, _ = fmt.Fprintf(w, "  %s\t%s\n", name, strings.Join(nodes[name], ", "))
	}
	_, _ = fmt.Fprintln(w, "\n  TAKEN\tFROM\tWHY")
	taken := slices.Clone(before[low])
	slices.SortFunc(taken, func(a, b types.UID) int { return cmp.Compare(s.pods[a].Name, s.pods[b].Name) })
	for _, uid := range taken {
		pod := s.pods[uid]
		_, _ = fmt.Fprintf(w, "  %s\t%s\t%s\n", pod.Name, pod.Spec.NodeName, disruption(pod).Message)
	}
	_ = w.Flush()
}
