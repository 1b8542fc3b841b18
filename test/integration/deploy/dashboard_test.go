package deploy

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

var (
	dashboardFor  = flag.Duration("dashboard-for", 0, "for how long TestDashboard has work arrive, at least")
	dashboardData = flag.String("dashboard-data", "", "file that TestDashboard writes what the panels show into; empty for none")
)

const (
	// everyArrival is the interval between new workloads.
	everyArrival = 500 * time.Millisecond
	// dashboardPatience is how long the test waits for data in the panels after the time for work
	// (the flag of the test) has ended.
	dashboardPatience = 2 * time.Minute
)

// scrapedPanel is a panel of the dashboard with its queries.
type scrapedPanel struct {
	Title   string
	Targets []struct{ Expr string }
}

// scrapedDashboard has the fields of the dashboard that the tests read.
type scrapedDashboard struct {
	Panels     []scrapedPanel
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
}

// mayStayZero reports whether the data of a panel may always be 0, because the panel counts errors.
func mayStayZero(title string) bool {
	return slices.Contains([]string{"Failed preemptions", "Plans that were not confirmed"}, title)
}

func readDashboard(t *testing.T) scrapedDashboard {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(t), "charts", "reprieve", "monitoring", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out scrapedDashboard
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDashboard runs Prometheus with the documented permissions and configuration. Prometheus
// scrapes the installed scheduler while all kinds of work arrive. The test checks:
//
//   - Each query of each panel returns data. The data is not always 0, except for errors.
//   - All alerting rules are evaluated, and no alert fires.
//   - After the scheduler ends, an alert about it becomes pending.
func TestDashboard(t *testing.T) {
	prometheusPath(t)
	c := startClusterOf(t, render(t, deployPath(t)), map[string]int{fleet: fleetNodes}, playground.Options{})
	c.startScheduler(t, name+"-0")
	testDocumentedRights(t, c)
	p := c.startPrometheus(t, c.metricsReader(t, "prometheus"))
	begun := p.waitUp(t)
	tr := newTraffic(t, c)
	p.waitPanels(t, tr, begun)
	testVariables(t, p)
	testNoneFires(t, p, begun)
	testDownIsNoticed(t, c, p)
}

// metricsReader creates a ServiceAccount that may read the scheduler's metrics, and returns a token
// for it.
func (c *cluster) metricsReader(t *testing.T, account string) string {
	t.Helper()
	c.create(t, &corev1.ServiceAccount{ObjectMeta: meta(account)}, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: metricsRole},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: metav1.NamespaceDefault, Name: account}},
	})
	return c.token(t, metav1.NamespaceDefault, account)
}

// waitUp waits for the first successful scrape of the scheduler, and returns its time. The
// scheduler needs some time to recognize new permissions.
func (p *prometheus) waitUp(t *testing.T) time.Time {
	t.Helper()
	begun := time.Now()
	eventually(t, "the first scrape", func(ctx context.Context) string {
		up, err := p.over(ctx, "up == 1", begun, time.Now())
		switch {
		case err != nil:
			return err.Error()
		case len(up) == 0:
			return "there is none yet"
		}
		return ""
	})
	return time.Now()
}

// waitPanels creates work until all panels show data. If some panels show no data before the
// timeout, the test fails with their titles.
func (p *prometheus) waitPanels(t *testing.T, tr *traffic, begun time.Time) {
	t.Helper()
	all := readDashboard(t).Panels
	ctx, cancel := context.WithTimeout(t.Context(), *dashboardFor+dashboardPatience)
	defer cancel()
	lacks := []string{"nothing has been asked"}
	ticks := 0
	err := wait.PollUntilContextCancel(ctx, everyArrival, true, func(context.Context) (bool, error) {
		tr.next(t)
		ticks++
		// Query the panels only on every fourth tick, because queries take time.
		if time.Since(begun) < *dashboardFor || ticks%4 != 0 {
			return false, nil
		}
		kinds, err := tr.lacks(t.Context())
		if err != nil {
			return false, err
		}
		panels, err := p.show(t.Context(), all, begun)
		lacks = slices.Concat(panels, kinds)
		return err == nil && len(lacks) == 0, err
	})
	if err != nil {
		t.Fatalf("what the panels show, after %d arrivals: %v; there is lacking:\n%s", tr.arrived, err, strings.Join(lacks, "\n"))
	}
	t.Logf("all panels show something after %s and %d arrivals", time.Since(begun).Round(time.Second), tr.arrived)
}

// show queries all panels, and writes the results to the file in the test's flag. It returns the
// titles of the panels without data.
func (p *prometheus) show(ctx context.Context, all []scrapedPanel, begun time.Time) ([]string, error) {
	end := time.Now()
	variables := strings.NewReplacer("$__rate_interval", fmt.Sprint(rateInterval),
		"$__range", fmt.Sprintf("%ds", int(end.Sub(begun).Seconds())), "$resource", string(gpu))
	var lacks []string
	shown := map[string][]series{}
	for _, panel := range all {
		for _, target := range panel.Targets {
			lines, err := p.over(ctx, variables.Replace(target.Expr), begun, end)
			if err != nil {
				return nil, fmt.Errorf("panel %q: %w", panel.Title, err)
			}
			shown[target.Expr] = lines
			switch most, some := highest(lines); {
			case !some:
				lacks = append(lacks, fmt.Sprintf("panel %q has no data: %s", panel.Title, target.Expr))
			case most == 0 && !mayStayZero(panel.Title):
				lacks = append(lacks, fmt.Sprintf("panel %q is 0 all the time: %s", panel.Title, target.Expr))
			}
		}
	}
	if *dashboardData == "" {
		return lacks, nil
	}
	raw, err := json.Marshal(map[string]any{"begin": begun.Unix(), "end": end.Unix(), "resource": gpu, "queries": shown})
	if err != nil {
		return nil, err
	}
	return lacks, os.WriteFile(*dashboardData, raw, 0o600)
}

// testVariables checks that the queries for the dashboard's variables return values.
func testVariables(t *testing.T, p *prometheus) {
	for _, variable := range readDashboard(t).Templating.List {
		if variable.Type != "query" {
			continue
		}
		said, err := json.Marshal(variable.Query)
		if err != nil {
			t.Fatal(err)
		}
		var query struct{ Query string }
		if err := json.Unmarshal(said, &query); err != nil {
			t.Fatal(err)
		}
		inner, found := strings.CutPrefix(strings.TrimSuffix(query.Query, ")"), "label_values(")
		metric, label, two := strings.Cut(inner, ", ")
		if !found || !two {
			t.Fatalf("the variable %s asks %q, want label_values(METRIC, LABEL)", variable.Name, query.Query)
		}
		var values []string
		if err := p.ask(t.Context(), "/api/v1/label/"+label+"/values", url.Values{"match[]": {metric}}, &values); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(values, string(gpu)) {
			t.Errorf("the variable %s can be %q, want %s among them", variable.Name, values, gpu)
		}
	}
}

// testNoneFires checks that no alert fires, and that none has fired since begun.
func testNoneFires(t *testing.T, p *prometheus, begun time.Time) {
	written := monitoringExpressions(t)
	eventually(t, "the alerts where all is well", func(ctx context.Context) string {
		states, err := p.alerts(ctx)
		if err != nil {
			return err.Error()
		}
		var wrong []string
		for what := range written {
			alert, is := strings.CutPrefix(what, "alert ")
			if !is {
				continue
			}
			if s := states[alert]; s.Health != "ok" || s.State != "inactive" || s.LastEvaluation.IsZero() {
				wrong = append(wrong, fmt.Sprintf("%s: %+v", alert, s))
			}
		}
		slices.Sort(wrong)
		return strings.Join(wrong, "; ")
	})
	fired, err := p.over(t.Context(), `ALERTS{alertstate="firing"}`, begun, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range fired {
		t.Errorf("%s has fired", line.Metric["alertname"])
	}
}

// testDownIsNoticed stops the scheduler, and waits until an alert about it is pending.
func testDownIsNoticed(t *testing.T, c *cluster, p *prometheus) {
	if err := c.schedulers[0].Kill(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the alert ReprieveDown", func(ctx context.Context) string {
		states, err := p.alerts(ctx)
		if err != nil {
			return err.Error()
		}
		if s := states["ReprieveDown"]; s.State != "pending" {
			return "it is " + s.State
		}
		return ""
	})
}
