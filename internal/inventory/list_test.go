package inventory_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// apiServer is a fake API server that serves each list in two pages. It answers 403 if the path
// ends with an entry of forbidden, and 404 if it contains an entry of missing.
type apiServer struct {
	forbidden, missing []string

	mu      sync.Mutex
	methods map[string]int
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.methods[r.Method]++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	say := func(code int, reason string) {
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	}
	for _, word := range s.forbidden {
		if strings.HasSuffix(r.URL.Path, word) {
			say(http.StatusForbidden, "Forbidden")
			return
		}
	}
	for _, word := range s.missing {
		if strings.Contains(r.URL.Path, word) {
			say(http.StatusNotFound, "NotFound")
			return
		}
	}
	switch r.URL.Path {
	case "/apis":
		_, _ = fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		return
	case "/api":
		_, _ = fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
		return
	}
	page := map[string]any{"kind": "ThingList", "apiVersion": "v1"}
	item := func(name string) any {
		return map[string]any{"metadata": map[string]any{"name": name, "uid": name, "managedFields": []any{}}, "spec": map[string]any{
			"containers": []any{map[string]any{"name": "c", "env": []any{map[string]any{"name": "TOKEN", "value": "hidden"}}}},
		}}
	}
	if r.URL.Query().Get("continue") == "" {
		page["metadata"], page["items"] = map[string]any{"continue": "more"}, []any{item("b")}
	} else {
		page["metadata"], page["items"] = map[string]any{}, []any{item("a")}
	}
	_ = json.NewEncoder(w).Encode(page)
}

func TestList(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		forbidden, missing []string
		// want is a part of the error. It is empty if List must succeed.
		want      string
		forbids   bool
		notServed bool
	}{
		"all pages of all kinds":              {},
		"a kind that the cluster may lack":    {missing: []string{"/resource.k8s.io/"}},
		"all missing rights are named":        {forbidden: []string{"/nodes", "/queues"}, want: "nodes, queues.reprieve.dev", forbids: true},
		"a right that can be done without":    {forbidden: []string{"/jobs"}},
		"a cluster without Reprieve":          {missing: []string{"/reprieve.dev/"}, want: "podgroups.reprieve.dev, queues.reprieve.dev, workloads.reprieve.dev", notServed: true},
		"not served comes before not allowed": {missing: []string{"/reprieve.dev/"}, forbidden: []string{"/nodes"}, want: "queues.reprieve.dev", notServed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &apiServer{forbidden: c.forbidden, missing: c.missing, methods: make(map[string]int)}
			serving := httptest.NewServer(server)
			defer serving.Close()
			in, err := listFrom(t, serving.URL)
			var forbidden *inventory.ForbiddenError
			var notServed *inventory.NotServedError
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want one that says %q", err, c.want)
			case errors.As(err, &forbidden) != c.forbids || errors.As(err, &notServed) != c.notServed:
				t.Errorf("the error is a %T", err)
			}
			if n := len(server.methods); n != 1 || server.methods[http.MethodGet] == 0 {
				t.Errorf("It makes calls other than reads: %v", server.methods)
			}
			if err != nil {
				return
			}
			pods := in.Objects(inventory.Pods)
			if len(pods) != 2 || pods[0].Name != "a" || pods[1].Name != "b" {
				t.Errorf("It has the pods %v", pods)
			}
			if raw := string(pods[0].Raw); strings.Contains(raw, "hidden") || !strings.Contains(raw, `"kind":"Thing"`) {
				t.Errorf("A pod is kept as %s", raw)
			}
		})
	}
}

// TestListRoots checks that List reads the objects of each root kind that the caller can list, in
// reduced form. For other root kinds, List records the reason and succeeds.
func TestListRoots(t *testing.T) {
	t.Parallel()
	server := &apiServer{forbidden: []string{"/jobsets"}, missing: []string{"/ray.io/"}, methods: make(map[string]int)}
	serving := httptest.NewServer(server)
	defer serving.Close()
	root := func(apiVersion, kind string) inventory.Root {
		return inventory.Root{
			APIVersion: apiVersion, Kind: kind, Resource: strings.ToLower(kind) + "s",
			Reduce: func(u *unstructured.Unstructured) *unstructured.Unstructured {
				unstructured.RemoveNestedField(u.Object, "spec")
				return u
			},
		}
	}
	in, err := listFrom(t, serving.URL, root("batch/v1", "Job"), root("jobset.x-k8s.io/v1alpha2", "JobSet"), root("ray.io/v1", "RayCluster"))
	if err != nil {
		t.Fatal(err)
	}
	if jobs := in.Objects("jobs.batch"); len(jobs) != 2 || strings.Contains(string(jobs[0].Raw), "hidden") {
		t.Errorf("it has the Jobs %v", jobs)
	}
	if unread := in.Unread(); len(unread) != 1 || unread[0] != "jobsets.jobset.x-k8s.io" {
		t.Errorf("it says that %q may not be listed", unread)
	}
	again, err := inventory.Read(strings.NewReader(written(t, in)))
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []*inventory.Inventory{in, again} {
		roots, asked := of.Roots()
		if !asked || len(roots) != 3 || roots[0].Trouble != "" || roots[1].Trouble != "you may not list jobsets.jobset.x-k8s.io" ||
			roots[2].Trouble != "the API server does not serve rayclusters of ray.io/v1" {
			t.Errorf("the kinds are %+v", roots)
		}
	}
}

func listFrom(t *testing.T, url string, roots ...inventory.Root) (*inventory.Inventory, error) {
	t.Helper()
	cfg := &rest.Config{Host: url, QPS: -1}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return inventory.List(t.Context(), inventory.Listing{Client: client, Discovery: discoverer, Now: time.Unix(1e9, 0), Roots: roots})
}
