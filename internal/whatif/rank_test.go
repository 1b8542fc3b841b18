package whatif_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/manifest"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// extender returns an extender that prefers the node liked. It rejects the nodes in refused, for a
// reason that may change later.
func extender(t *testing.T, refused []string, liked string) config.Extender {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Errorf("what the extender is asked: %v", err)
			return
		}
		var answer any
		if strings.HasSuffix(r.URL.Path, "filter") {
			passed := slices.DeleteFunc(slices.Clone(*asked.NodeNames), func(name string) bool { return slices.Contains(refused, name) })
			failed := make(extenderv1.FailedNodesMap)
			for _, name := range refused {
				failed[name] = "not now"
			}
			answer = extenderv1.ExtenderFilterResult{NodeNames: &passed, FailedNodes: failed}
		} else {
			scores := extenderv1.HostPriorityList{}
			for _, name := range *asked.NodeNames {
				score := int64(0)
				if name == liked {
					score = extenderv1.MaxExtenderPriority
				}
				scores = append(scores, extenderv1.HostPriority{Host: name, Score: score})
			}
			answer = scores
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Errorf("the extender's answer: %v", err)
		}
	}))
	t.Cleanup(server.Close)
	return config.Extender{URLPrefix: server.URL, FilterVerb: "filter", PrioritizeVerb: "prioritize", Weight: 100, NodeCacheCapable: true}
}

// TestExtenders checks that a pod that fits is placed on a node that extenders accept, and on the
// one with the highest score.
func TestExtenders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refused []string
		liked   string
		want    core.Outcome
		// wantNode is the node of the pod. It is empty for none.
		wantNode, wantSays string
	}{
		"none is refused":       {want: core.Fits, wantNode: "node-a", wantSays: "pod fits on node-a"},
		"the best is refused":   {refused: []string{"node-a"}, want: core.Fits, wantNode: "node-b", wantSays: "pod fits on node-b"},
		"another is liked":      {liked: "node-b", want: core.Fits, wantNode: "node-b", wantSays: "pod fits on node-b"},
		"all nodes are refused": {refused: []string{"node-a", "node-b"}, want: core.Infeasible, wantSays: "refuses every node"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(noon)
			s.node("node-a", 4)
			s.node("node-b", 4)
			// Because this pod runs on node-b, node-a has more free resources and a higher score.
			s.running("old", "", "node-b", 0, 0, time.Hour)
			cfg := configuration(t)
			cfg.Extenders = []config.Extender{extender(t, c.refused, c.liked)}
			w := manifest.Workload{Kind: "Pod", Namespace: "ns", Name: "new", Pods: []*corev1.Pod{s.pending("new", "", 4, 0)}}
			results, err := whatif.Plan(t.Context(), s.inventory(t), cfg, []manifest.Workload{w}, nil)
			if err != nil {
				t.Fatal(err)
			}
			step := results[0].Steps[0]
			if got := nodesOf(&results[0]); step.Outcome != c.want || got != c.wantNode || !strings.Contains(step.Message, c.wantSays) {
				t.Errorf("%s on %q, %q; want %s on %q, %q", step.Outcome, got, step.Message, c.want, c.wantNode, c.wantSays)
			}
		})
	}
}
