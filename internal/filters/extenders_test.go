package filters

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// extender is a server with the extenders' protocol. It rejects some nodes, or returns other
// victims.
type extender struct {
	failed, unresolvable extenderv1.FailedNodesMap
	dropped              []string
	trimmed              bool
}

func (e *extender) filter(w http.ResponseWriter, r *http.Request) {
	var args extenderv1.ExtenderArgs
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	left := slices.DeleteFunc(*args.NodeNames, func(name string) bool {
		return e.failed[name] != "" || e.unresolvable[name] != ""
	})
	reply(w, &extenderv1.ExtenderFilterResult{NodeNames: &left, FailedNodes: e.failed, FailedAndUnresolvableNodes: e.unresolvable})
}

func (e *extender) preempt(w http.ResponseWriter, r *http.Request) {
	var args extenderv1.ExtenderPreemptionArgs
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, name := range e.dropped {
		delete(args.NodeNameToMetaVictims, name)
	}
	for _, v := range args.NodeNameToMetaVictims {
		if e.trimmed {
			v.Pods = v.Pods[1:]
		}
	}
	reply(w, &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: args.NodeNameToMetaVictims})
}

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // The client is gone then.
}

// serve starts the extender. If preemptVerb is set, the extender takes part in preemption.
func (e *extender) serve(t *testing.T, preemptVerb string) []config.Extender {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/filter", e.filter)
	mux.HandleFunc("/preempt", e.preempt)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return []config.Extender{{
		URLPrefix: server.URL, FilterVerb: "filter", PreemptVerb: preemptVerb, NodeCacheCapable: true,
		HTTPTimeout: metav1.Duration{Duration: time.Minute},
	}}
}

// TestExtendersAreAsked checks that decisions respect the extenders' answers about nodes and
// victims.
func TestExtendersAreAsked(t *testing.T) {
	t.Parallel()
	refused := func(name string) extenderv1.FailedNodesMap { return extenderv1.FailedNodesMap{name: "no"} }
	cases := map[string]struct {
		extender    extender
		preempts    bool
		full, gang  bool
		want        core.Outcome
		wantNode    string
		wantVictims []string
	}{
		"a gang goes where they let it":           {extender: extender{failed: refused("node-0")}, gang: true, want: core.Fits, wantNode: "node-1"},
		"no pod is taken where it cannot help":    {extender: extender{unresolvable: refused("node-0")}, full: true, want: core.Preempts, wantNode: "node-1", wantVictims: []string{"on-node-1"}},
		"a pod may take where it can help":        {extender: extender{failed: extenderv1.FailedNodesMap{"node-0": "no", "node-1": "no"}}, full: true, want: core.Preempts, wantVictims: []string{"on-node-0"}, wantNode: "node-0"},
		"a node that they drop is left alone":     {extender: extender{dropped: []string{"node-0"}}, preempts: true, full: true, want: core.Preempts, wantNode: "node-1", wantVictims: []string{"on-node-1"}},
		"a gang leaves alone what they drop":      {extender: extender{dropped: []string{"node-0"}}, preempts: true, full: true, gang: true, want: core.Preempts, wantNode: "node-1", wantVictims: []string{"on-node-1"}},
		"nobody goes where they want other ones":  {extender: extender{trimmed: true}, preempts: true, full: true, want: core.Infeasible},
		"without any say, the first node will do": {full: true, preempts: true, want: core.Preempts, wantNode: "node-0", wantVictims: []string{"on-node-0"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verb := ""
			if c.preempts {
				verb = "preempt"
			}
			objects, group := nodes(2, "1"), ""
			if c.full {
				objects = with(objects, on(pod("on-node-0", "", "1", 0), "node-0"), on(pod("on-node-1", "", "1", 0), "node-1"))
			}
			if c.gang {
				group = "g"
			}
			d := newWorld(t, c.extender.serve(t, verb), objects...).decide(pod("p", group, "1", 10))
			if d.Outcome != c.want || !slices.Equal(victims(d), c.wantVictims) || c.wantNode != "" && d.Placements[0].Node != c.wantNode {
				t.Errorf("%s on %v, taking %v: %s; want %s on %s, taking %v",
					d.Outcome, placedOn(d), victims(d), d.Message, c.want, c.wantNode, c.wantVictims)
			}
		})
	}
}

// TestResourcesOfExtenders checks a resource that no node has and that an extender may manage. The
// node must be excluded, unless the scheduler ignores the resource.
func TestResourcesOfExtenders(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		managed config.ExtenderManagedResource
		want    core.Outcome
	}{
		"ignored by the scheduler":    {managed: config.ExtenderManagedResource{Name: "example.com/widget", IgnoredByScheduler: true}, want: core.Fits},
		"looked at by the scheduler":  {managed: config.ExtenderManagedResource{Name: "example.com/widget"}, want: core.Infeasible},
		"another resource is the one": {managed: config.ExtenderManagedResource{Name: "example.com/other", IgnoredByScheduler: true}, want: core.Infeasible},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ext extender
			extenders := ext.serve(t, "")
			extenders[0].ManagedResources = []config.ExtenderManagedResource{c.managed}
			p := pod("p", "g", "1", 10)
			p.Spec.Containers[0].Resources.Requests["example.com/widget"] = quantity("1")
			if d := newWorld(t, extenders, nodes(1, "1")...).decide(p); d.Outcome != c.want {
				t.Errorf("%s: %s, want %s", d.Outcome, d.Message, c.want)
			}
		})
	}
}
