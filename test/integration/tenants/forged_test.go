package tenants

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/reprieve-dev/reprieve/cmd/kubectl-reprieve/app"
)

// TestForgedEvents tests events about preemptions that a tenant writes by hand. kubectl reprieve
// history must not state that these preemptions happened, and must print no control characters.
func TestForgedEvents(t *testing.T) {
	t.Parallel()
	const clearScreen = "\x1b[2J"
	e := newEnv(t)
	e.AddNodes(4, "a")
	e.running("calm", "low", "a", 1)
	for _, victim := range []string{"calm", "invented"} {
		_, err := e.tenant.EventsV1().Events(e.Namespace).Create(e.Context(), &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "forged-" + victim}, EventTime: metav1.NowMicro(),
			ReportingController: "reprieve-scheduler", ReportingInstance: "reprieve-scheduler-0", Action: "Preempting", Reason: "Preempted", Type: corev1.EventTypeNormal,
			Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: e.Namespace, Name: victim},
			Related:   &corev1.ObjectReference{Kind: "Pod", Namespace: e.Namespace, Name: "rival"},
			Note:      fmt.Sprintf("preempted by Pod %s/rival (priority 100): Forged, the victim's priority is 10%s", e.Namespace, clearScreen),
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, form := range [][]string{nil, {"-o", "wide"}} {
		var out, errOut bytes.Buffer
		code := app.Run(e.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut},
			append([]string{"history", "-n", e.Namespace, "--kubeconfig", e.Run.Kubeconfig()}, form...), func(string) (string, bool) { return "", false })
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, errOut.String())
		}
		if text := out.String() + errOut.String(); strings.Contains(text, clearScreen) {
			t.Errorf("it has a control character: %q", text)
		}
		forged := 0
		for line := range strings.Lines(out.String()) {
			if !strings.Contains(line, e.Namespace+"/rival") {
				continue
			}
			if forged++; !strings.Contains(line, "according to an event") {
				t.Errorf("it states as a fact: %s", line)
			}
		}
		if forged != 2 {
			t.Errorf("%d lines have the forged preemptor, want 2: %s", forged, out.String())
		}
	}
}
