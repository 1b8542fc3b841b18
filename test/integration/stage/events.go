package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EventsOf returns the events that are about an object and have the given reason. The format of
// object is NAME or KIND/NAME. An empty object or reason matches all events.
func (s *Stage) EventsOf(ctx context.Context, object, reason string) []corev1.Event {
	s.Helper()
	list, err := s.Kube.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		s.Fatalf("list events: %v", err)
	}
	kind, name, ok := strings.Cut(object, "/")
	if !ok {
		kind, name = "", object
	}
	return slices.DeleteFunc(list.Items, func(ev corev1.Event) bool {
		about := ev.InvolvedObject
		other := func(want, got string) bool { return want != "" && want != got }
		return other(name, about.Name) || other(kind, about.Kind) || other(reason, ev.Reason)
	})
}

// WaitEvent waits for an event that is about an object, has the given reason, and has a message
// with all phrases. The format of object is NAME or KIND/NAME.
func (s *Stage) WaitEvent(object, reason string, phrases ...string) {
	s.Helper()
	s.Eventually(fmt.Sprintf("event %s on %s that mentions %q", reason, object, phrases), func(ctx context.Context) string {
		var seen []string
		for _, ev := range s.EventsOf(ctx, object, "") {
			if ev.Reason == reason && Mentions(ev.Message, phrases) {
				return ""
			}
			seen = append(seen, ev.Reason+": "+ev.Message)
		}
		return fmt.Sprintf("seen: %q", seen)
	})
}
