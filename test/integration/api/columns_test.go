package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestColumns checks the columns of kubectl get for each kind. The API server returns them as a
// table.
func TestColumns(t *testing.T) {
	config := startAPIServer(t)
	c := clientFor(t, config)
	for name, tc := range map[string]struct {
		kind, path, create, status string
		// want maps the name of a column to its cell. wantWide has the columns that only -o wide
		// shows.
		want, wantWide map[string]string
		// wantShort has the short names of the kind, such as "pg".
		wantShort []string
	}{
		"PodGroup that runs": {
			kind: "PodGroup", path: "namespaces/default/podgroups",
			create: `{schedulingPolicy: {gang: {minCount: 6}}, queueName: research, priority: 7, disruptionMode: PodGroup}`,
			status: `{phase: Running, running: 5, scheduled: 6, protectedUntil: "2026-01-02T03:04:05Z", conditions: [` +
				`{type: PodGroupScheduled, status: "True", reason: Scheduled, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}], ` +
				`lastDisruption: {count: 3, rule: Reclaim, time: "2026-01-02T03:04:05Z", preemptor: {kind: PodGroup, namespace: default, name: urgent}}}`,
			want: map[string]string{
				"Name": "it", "Phase": "Running", "Running": "5", "Needed": "6", "Queue": "research", "Protected-Until": "2026-01-02T03:04:05Z", "Reason": "Scheduled",
			},
			wantWide:  map[string]string{"Priority": "7", "Mode": "PodGroup", "Pending": "0", "Finished": "0", "Disruptions": "3", "Last-Preemptor": "urgent"},
			wantShort: []string{"pg"},
		},
		"PodGroup of which nothing runs": {
			kind: "PodGroup", path: "namespaces/default/podgroups", create: `{schedulingPolicy: {gang: {minCount: 2}}}`, status: `{phase: Pending}`,
			want: map[string]string{"Phase": "Pending", "Running": "0", "Needed": "2", "Queue": "", "Protected-Until": ""}, wantShort: []string{"pg"},
		},
		"Queue": {
			kind: "Queue", path: "queues", create: `{parent: top, quota: {cpu: 4}, limit: {cpu: 9}}`,
			status: `{allocated: {cpu: 2}, fairShare: {cpu: 6}, requested: {cpu: 3}, summary: {used: cpu 2, share: cpu 6, quota: cpu 4, ready: "False"}, conditions: [` +
				`{type: Ready, status: "False", reason: ParentNotFound, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}]}`,
			want:      map[string]string{"Parent": "top", "Used": "cpu 2", "Share": "cpu 6", "Quota": "cpu 4", "Waiting": "0", "Ready": "False"},
			wantWide:  map[string]string{"Limit": `{"cpu":9}`, "Requested": `{"cpu":3}`, "Weight": "1", "Reason": "ParentNotFound"},
			wantShort: []string{"q"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj := object(t, tc.kind, tc.create)
			if err := c.Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
			obj.Object["status"] = fields(t, tc.status)
			if err := c.Status().Update(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
			columns, cells := tableOf(t, config, tc.path)
			for _, wide := range []bool{false, true} {
				want := tc.want
				if wide {
					want = tc.wantWide
				}
				for column, cell := range want {
					i := slices.IndexFunc(columns, func(c metav1.TableColumnDefinition) bool { return c.Name == column && (c.Priority > 0) == wide })
					switch {
					case i < 0:
						t.Errorf("no column %s (wide: %v) among %v", column, wide, columns)
					case cells[i] != cell:
						t.Errorf("%s is %q, want %q", column, cells[i], cell)
					}
				}
			}
			if got := shortNames(t, config, tc.kind); !slices.Equal(got, tc.wantShort) {
				t.Errorf("short names %v, want %v", got, tc.wantShort)
			}
			if err := c.Delete(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestSelectByQueue checks that a field selector finds the PodGroups of a queue.
func TestSelectByQueue(t *testing.T) {
	t.Parallel()
	c := clientFor(t, startAPIServer(t))
	for name, queue := range map[string]string{"a": "research", "b": "product", "c": "research"} {
		obj := object(t, "PodGroup", `{schedulingPolicy: {basic: {}}, queueName: `+queue+`}`)
		obj.SetName(name)
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	var found v1alpha1.PodGroupList
	if err := c.List(t.Context(), &found, client.MatchingFields{"spec.queueName": "research"}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range found.Items {
		names = append(names, found.Items[i].Name)
	}
	if want := []string{"a", "c"}; !slices.Equal(names, want) {
		t.Errorf("in the queue are %v, want %v", names, want)
	}
}

// tableOf requests a list as a table and returns its columns and the cells of its only row. path is
// the path of the list below the API version.
func tableOf(t *testing.T, config *rest.Config, path string) ([]metav1.TableColumnDefinition, []string) {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := d.RESTClient().Get().AbsPath("/apis/reprieve.dev/v1alpha1/"+path).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 1 {
		t.Fatalf("%d rows, want 1", len(table.Rows))
	}
	var cells []string
	for _, cell := range table.Rows[0].Cells {
		text, ok := cell.(string)
		if !ok && cell != nil {
			raw, err := json.Marshal(cell)
			if err != nil {
				t.Fatal(err)
			}
			text = string(raw)
		}
		cells = append(cells, text)
	}
	return table.ColumnDefinitions, cells
}

func shortNames(t *testing.T, config *rest.Config, kind string) []string {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	list, err := d.ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list.APIResources {
		if r.Kind == kind && !strings.Contains(r.Name, "/") {
			return r.ShortNames
		}
	}
	return nil
}
