package app

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// ask returns the response of a handler to a request.
func ask(t *testing.T, handler http.Handler, method string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/", http.NoBody))
	return w
}

func TestLatestDecisions(t *testing.T) {
	t.Parallel()
	log := decisionlog.New(decisionlog.Options{Process: "p"})
	handler := latestDecisions(log)
	if w := ask(t, handler, http.MethodGet); w.Code != http.StatusOK || w.Body.Len() != 0 {
		t.Errorf("Without a decision the answer is %d %q", w.Code, w.Body)
	}
	log.Record(decisionlog.Record{Profile: "first", Time: time.Unix(1, 0)})
	log.Follow(decisionlog.Record{Profile: "second", Time: time.Unix(2, 0)}, func() []decisionlog.Lost { return nil })
	w := ask(t, handler, http.MethodGet)
	var profiles []string
	for line := range strings.Lines(w.Body.String()) {
		r, err := decisionlog.Parse([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		profiles = append(profiles, r.Profile)
	}
	if got := strings.Join(profiles, " "); w.Code != http.StatusOK || got != "first second" || w.Header().Get("Content-Type") != jsonLines {
		t.Errorf("The answer is %d, %v, of %q", w.Code, w.Header(), got)
	}
	if w := ask(t, handler, http.MethodDelete); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
		t.Errorf("DELETE is answered with %d", w.Code)
	}
}

// pictured is a nodeCache that returns the error ofCache, and a describer that returns the error
// ofNodes.
type pictured struct{ ofCache, ofNodes error }

func (p pictured) UpdateSnapshot(klog.Logger, *internalcache.Snapshot) error { return p.ofCache }

func (p pictured) State([]fwk.NodeInfo) (snapshot.State, error) {
	return snapshot.State{Schema: snapshot.StateSchema}, p.ofNodes
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of       pictured
		wantCode int
		want     string
	}{
		"one that is taken":      {wantCode: http.StatusOK, want: `"process":"p"`},
		"a cache that fails":     {of: pictured{ofCache: errors.New("out of step")}, wantCode: http.StatusInternalServerError, want: "snapshot of the scheduler's cache: out of step"},
		"nodes that do not do":   {of: pictured{ofNodes: errors.New("node a")}, wantCode: http.StatusInternalServerError, want: "describe the cluster: node a"},
		"the schema is in front": {wantCode: http.StatusOK, want: `{"schema":"` + snapshot.StateSchema + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ask(t, &snapshots{cache: c.of, shared: c.of, process: "p"}, http.MethodGet)
			if w.Code != c.wantCode || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("The answer is %d %s, want %d and %s", w.Code, w.Body, c.wantCode, c.want)
			}
		})
	}
}

func TestDecisionLogOptions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		options DecisionLogOptions
		want    []string
	}{
		"a size of nothing":        {DecisionLogOptions{Path: "-"}, []string{"--decision-log-maxsize is 0 megabytes", "at least 1"}},
		"fewer files than none":    {DecisionLogOptions{Path: "-", MaxSize: 1, MaxBackup: -1}, []string{"--decision-log-maxbackup is -1", "at least 0"}},
		"a directory":              {DecisionLogOptions{Path: dir, MaxSize: 1}, []string{"--decision-log " + dir, "is a directory", "name a file"}},
		"no directory to write to": {DecisionLogOptions{Path: dir + "/none/log", MaxSize: 1}, []string{"no such file or directory", "name a file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := c.options.open(nil)
			if err == nil {
				t.Fatal("It is opened")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("The error does not say %q: %v", want, err)
				}
			}
		})
	}
}
