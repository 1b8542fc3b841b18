package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// manyEvents is the greatest number of events in a dump.
const manyEvents = 25

// clear checks the writes of the test, and deletes objects that could disturb other tests. It does
// not delete the namespace, because the API server would search it for objects of all kinds.
func (s *Stage) clear() {
	s.plansHold()
	s.saysNothingTwice()
	s.explain()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), Patience)
	defer cancel()
	for _, pod := range s.AllPods(ctx) {
		if len(pod.Finalizers) > 0 {
			s.LetGo(pod.Name)
		}
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	mine := metav1.ListOptions{LabelSelector: OwnerLabel + "=" + s.Namespace}
	errs := []error{
		s.Kube.CoreV1().Pods(s.Namespace).DeleteCollection(ctx, now, metav1.ListOptions{}),
		s.Kube.CoreV1().Nodes().DeleteCollection(ctx, now, mine),
		s.clearGroups(ctx),
	}
	if err := errors.Join(errs...); err != nil {
		s.Errorf("clear the namespace: %v", err)
	}
}

// explain logs the state of the namespace and keeps the logs, if the test has failed.
func (s *Stage) explain() {
	if !s.Failed() {
		return
	}
	if !s.explained {
		s.Log(s.Dump())
	}
	if err := s.keepLogs(); err != nil {
		s.Log(err)
	}
}

// keepLogs copies the logs of all components to the test's directory in $REPRIEVE_TEST_LOGS. If the
// variable is not set, it does nothing.
func (s *Stage) keepLogs() error {
	to := s.kept()
	if to == "" {
		return nil
	}
	files := []string{s.Run.AuditLog()}
	for _, component := range s.Run.Components() {
		files = append(files, component.LogPath())
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			// A playground without an audit policy has no audit log.
			continue
		}
		if err != nil {
			return fmt.Errorf("keep the logs: %w", err)
		}
		if err := s.Keep(filepath.Base(file), text); err != nil {
			return err
		}
	}
	s.Logf("the logs of all components are in %s", to)
	return nil
}

// kept returns the test's directory in $REPRIEVE_TEST_LOGS, or "" if the variable is not set.
func (s *Stage) kept() string {
	dir := os.Getenv("REPRIEVE_TEST_LOGS")
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, strings.ReplaceAll(s.Name(), "/", "_"))
}

// Keep writes a file to the test's directory in $REPRIEVE_TEST_LOGS. If the variable is not set, it
// does nothing.
func (s *Stage) Keep(name string, content []byte) error {
	to := s.kept()
	if to == "" {
		return nil
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("keep %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(to, name), content, 0o600); err != nil {
		return fmt.Errorf("keep %s: %w", name, err)
	}
	return nil
}

// Dump returns a description of the objects in the namespace.
func (s *Stage) Dump() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), 5*time.Second)
	defer cancel()
	var b strings.Builder
	fmt.Fprintf(&b, "namespace %s:\n", s.Namespace)
	if list, err := s.Kube.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for i := range list.Items {
			dumpPod(&b, &list.Items[i])
		}
	}
	for _, pg := range s.allGroups(ctx) {
		for _, c := range ConditionsOf(pg) {
			fmt.Fprintf(&b, "  PodGroup %s: %s=%s %s: %s\n", pg.GetName(), c.Type, c.Status, c.Reason, c.Message)
		}
	}
	if list, err := s.Kube.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for _, ev := range list.Items[max(0, len(list.Items)-manyEvents):] {
			fmt.Fprintf(&b, "  event %s on %s: %s\n", ev.Reason, ev.InvolvedObject.Name, ev.Message)
		}
	}
	if s.Explain != nil {
		b.WriteString(s.Explain())
	}
	return b.String()
}

func dumpPod(b *strings.Builder, pod *corev1.Pod) {
	fmt.Fprintf(b, "  pod %s: %s on %q, nominated %q, deleting %v", pod.Name, pod.Status.Phase, pod.Spec.NodeName,
		pod.Status.NominatedNodeName, pod.DeletionTimestamp != nil)
	if c := scheduledCondition(pod); c != nil && c.Status == corev1.ConditionFalse {
		b.WriteString(": " + c.Message)
	}
	b.WriteString("\n")
}
