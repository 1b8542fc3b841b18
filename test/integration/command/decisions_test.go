package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// asked sends a GET request to a server and returns the body of the response.
func asked(ctx context.Context, config *rest.Config, path string) ([]byte, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
}

// decisionsOf returns the records in a decision log. It omits the records that only report the end
// of a wait.
func decisionsOf(lines []byte) ([]decisionlog.Record, error) {
	var out []decisionlog.Record
	for line := range bytes.Lines(lines) {
		r, err := decisionlog.Parse(line)
		if errors.Is(err, decisionlog.ErrWaitEnd) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// TestDecisionLog checks the records of two decisions: a preemption, and a search that found no
// room. The decision log and the scheduler's HTTP endpoint must have the same records. The snapshot
// in a record must contain the running pods.
func TestDecisionLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	s := stage.New(t, playground.Options{
		NodeGroups: []playground.NodeGroup{{Count: 1, Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}},
		Scheduler:  playground.SchedulerOptions{Args: []string{"--decision-log=" + path}},
	})
	s.CreateClasses(map[string]int32{"low": 10, "high": 1000})
	create := func(name, class string, cpus int64) {
		pod := stage.NewPod(s.Namespace, name, class, cpus)
		pod.Spec.NodeSelector = nil
		s.Create(pod)
	}
	create("victim", "low", 3)
	s.Runs("victim", 1)
	create("urgent", "high", 2)
	s.Runs("urgent", 1)
	create("huge", "high", 64)
	var inFile []byte
	s.Eventually("the file has both decisions", func(context.Context) string {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err.Error()
		}
		records, err := decisionsOf(raw)
		if err != nil {
			return err.Error()
		}
		inFile = raw
		var said []string
		for _, r := range records {
			line := fmt.Sprintf("%s %s %s", r.Decision.Preemptor.Name, r.Decision.Outcome, r.Result.State)
			for _, v := range r.Decision.Victims {
				line += " " + v.Name
			}
			said = append(said, line)
		}
		for _, want := range []string{"urgent Preempts CarriedOut victim", "huge Infeasible Waiting"} {
			if !strings.Contains(strings.Join(said, "\n"), want) {
				return fmt.Sprintf("%q lacks %q", said, want)
			}
		}
		return ""
	})
	admin := s.Run.RESTConfig()
	admin.Host, admin.Timeout = s.Run.Component(playground.Scheduler).URL(), 30*time.Second
	latest, err := asked(t.Context(), admin, "/debug/reprieve/decisions")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(inFile) {
		if !bytes.Contains(latest, line) {
			t.Errorf("The file has the line\n%s\nand the latest decisions are\n%s", line, latest)
		}
	}
	raw, err := asked(t.Context(), admin, "/debug/reprieve/snapshot")
	if err != nil {
		t.Fatal(err)
	}
	var state snapshot.State
	if err := json.Unmarshal(raw, &state); err != nil {
		t.Fatal(err)
	}
	if len(state.Nodes) != 1 || state.Nodes[0].Free["cpu"] != 2000 || len(state.Units) != 1 || state.Units[0].Name != "urgent" || state.Process == "" {
		t.Errorf("The snapshot is %s", raw)
	}
	anonymous := rest.AnonymousClientConfig(admin)
	for _, path := range []string{"/debug/reprieve/decisions", "/debug/reprieve/snapshot"} {
		if _, err := asked(t.Context(), anonymous, path); !apierrors.IsForbidden(err) {
			t.Errorf("%s is answered to anybody: %v", path, err)
		}
	}
	// The scheduler must also serve the endpoints of kube-scheduler.
	for _, path := range []string{
		"/healthz", "/livez", "/readyz", "/readyz/sched-handler-sync", "/readyz/shutdown", "/configz", "/metrics", "/metrics/slis", "/metrics/resources",
		"/debug/pprof/", "/debug/flags/",
	} {
		if answer, err := asked(t.Context(), admin, path); err != nil || len(answer) == 0 {
			t.Errorf("%s is answered with %q, %v", path, answer, err)
		}
	}
	if _, err := asked(t.Context(), admin, "/debug/reprieve"); !apierrors.IsNotFound(err) {
		t.Errorf("A path that there is not is answered with %v, want %d", err, http.StatusNotFound)
	}
}
