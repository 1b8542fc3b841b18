package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

const (
	// churnNamespace is the namespace of the tenant that changes its objects. It has churnGroups
	// PodGroups with one pod each. The pods fit on no node.
	churnNamespace = "churn"
	churnGroups    = 3000
	// changesPerSecond is the rate of the tenant's changes.
	changesPerSecond = 100
	// probes is the number of gangs that the measured tenant creates in each phase. probePause is
	// the time between the end of one gang and the creation of the next gang.
	probes     = 200
	probePause = 100 * time.Millisecond
	// churnPatience is the timeout of all phases together.
	churnPatience = 20 * time.Minute
)

// churnPhase has the latencies of the measured tenant's gangs in one phase. In each phase, another
// tenant makes one kind of change, or no change.
type churnPhase struct {
	name string
	// placed has the time from the creation of each gang until its last member has a node. started
	// has the time from the creation of each gang until its status.startTime is visible.
	placed, started []time.Duration
	// changes is the number of changes per second that the other tenant made.
	changes float64
}

// churn is a cluster with two tenants: one changes its objects, and the other one creates the
// measured gangs.
type churn struct {
	objects client.WithWatch
	// groups and pods are watches of the measured tenant's namespace.
	groups, pods watch.Interface
	created      int
}

// measureChurn runs all phases in the same cluster, one after the other.
func measureChurn(ctx context.Context, binDir string) (phases []churnPhase, err error) {
	nodes := playground.NodeGroup{Count: 100, Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}}
	s := settings()[0]
	p, err := start(ctx, binDir, &s, nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	ctx, cancel := context.WithTimeout(ctx, churnPatience)
	defer cancel()
	c, err := newChurn(ctx, p)
	if err != nil {
		return nil, err
	}
	defer c.groups.Stop()
	defer c.pods.Stop()
	for _, phase := range []struct {
		name    string
		prepare func(context.Context) error
		change  func(ctx context.Context, n int) error
	}{
		{"no other work", func(context.Context) error { return nil }, nil},
		{fmt.Sprintf("%d changes a second of a ConfigMap", changesPerSecond), c.addConfigMap, c.changeConfigMap},
		{fmt.Sprintf("%d PodGroups at rest", churnGroups), c.addGroups, nil},
		{fmt.Sprintf("%d PodGroups, %d changes a second", churnGroups, changesPerSecond), func(context.Context) error { return nil }, c.changeGroup},
	} {
		if err := phase.prepare(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", phase.name, err)
		}
		got, err := c.phase(ctx, phase.change)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", phase.name, err)
		}
		got.name = phase.name
		fmt.Fprintf(os.Stderr, "%s: %v\n", got.name, percentile(got.placed, 0.99))
		phases = append(phases, *got)
	}
	return phases, nil
}

func newChurn(ctx context.Context, p *playground.Playground) (*churn, error) {
	plain, _, err := clients(p)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(p.RESTConfig())
	config.QPS = -1
	c := &churn{}
	if c.objects, err = client.NewWithWatch(config, client.Options{Scheme: plain.Scheme()}); err != nil {
		return nil, err
	}
	for _, o := range []client.Object{
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "low"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: churnNamespace}},
	} {
		if err := c.objects.Create(ctx, o); err != nil {
			return nil, err
		}
	}
	if c.groups, err = c.objects.Watch(ctx, &v1alpha1.PodGroupList{}, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	c.pods, err = c.objects.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace))
	return c, err
}

// newGroup returns a PodGroup with the PriorityClass low.
func newGroup(in, name string, minCount int32) *v1alpha1.PodGroup {
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name}}
	pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: minCount}}
	class := "low"
	pg.Spec.PriorityClassName = &class
	return pg
}

func (c *churn) addConfigMap(ctx context.Context) error {
	return c.objects.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: churnNamespace, Name: "busy"}})
}

// changeConfigMap changes an object that the scheduler does not read. Its phase shows the effect of
// a busy API server, which shares the cores with the scheduler.
func (c *churn) changeConfigMap(ctx context.Context, n int) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: churnNamespace, Name: "busy"}}
	return c.objects.Patch(ctx, cm, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n)))
}

// addGroups creates the groups and pods of the changing tenant. It waits until each group reports
// in its status that it is unschedulable.
func (c *churn) addGroups(ctx context.Context) error {
	g, creating := errgroup.WithContext(ctx)
	g.SetLimit(creators)
	for i := range churnGroups {
		g.Go(func() error {
			name := fmt.Sprintf("g-%d", i)
			pod := newPod(name, "low", name, "1000", "")
			pod.Namespace = churnNamespace
			return errors.Join(c.objects.Create(creating, newGroup(churnNamespace, name, 1)), c.objects.Create(creating, pod))
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for {
		var all v1alpha1.PodGroupList
		if err := c.objects.List(ctx, &all, client.InNamespace(churnNamespace)); err != nil {
			return err
		}
		told := 0
		for i := range all.Items {
			scheduled := meta.FindStatusCondition(all.Items[i].Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
			if scheduled != nil && scheduled.Reason == v1alpha1.ReasonUnschedulable {
				told++
			}
		}
		if told == churnGroups {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d groups have a status: %w", told, churnGroups, context.Cause(ctx))
		case <-time.After(2 * time.Second):
		}
	}
}

// changeGroup changes the minCount of one group of the changing tenant. With the minCount 1000, the
// group waits for members that do not exist. With the minCount 1, the scheduler retries the group.
func (c *churn) changeGroup(ctx context.Context, n int) error {
	minCount := 1000
	if n/churnGroups%2 == 1 {
		minCount = 1
	}
	pg := newGroup(churnNamespace, fmt.Sprintf("g-%d", n%churnGroups), 1)
	return c.objects.Patch(ctx, pg, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"schedulingPolicy":{"gang":{"minCount":%d}}}}`, minCount)))
}

// phase measures the probes, one after the other, while the other tenant calls change at its rate.
func (c *churn) phase(ctx context.Context, change func(ctx context.Context, n int) error) (*churnPhase, error) {
	out, began := &churnPhase{}, time.Now()
	busy, rest := context.WithCancel(ctx)
	defer rest()
	var running sync.WaitGroup
	made, failed := 0, error(nil)
	if change != nil {
		running.Go(func() { made, failed = atRate(busy, change) })
	}
	for range probes {
		placed, started, err := c.probe(ctx)
		if err != nil {
			rest()
			running.Wait()
			return nil, errors.Join(err, failed)
		}
		out.placed, out.started = append(out.placed, placed), append(out.started, started)
		time.Sleep(probePause)
	}
	rest()
	running.Wait()
	out.changes = float64(made) / time.Since(began).Seconds()
	return out, failed
}

// atRate calls change changesPerSecond times per second, until ctx ends or a call fails. It returns
// the number of calls.
func atRate(ctx context.Context, change func(ctx context.Context, n int) error) (int, error) {
	tick := time.NewTicker(time.Second / changesPerSecond)
	defer tick.Stop()
	g, changing := errgroup.WithContext(ctx)
	g.SetLimit(creators)
	for n := 0; ; n++ {
		select {
		case <-changing.Done():
			return n, g.Wait()
		case <-tick.C:
		}
		g.Go(func() error {
			if err := change(changing, n); err != nil && ctx.Err() == nil {
				return err
			}
			return nil
		})
	}
}

// probe creates a gang of two pods, waits until the gang has started, and deletes it.
func (c *churn) probe(ctx context.Context) (placed, started time.Duration, err error) {
	c.created++
	name := fmt.Sprintf("probe-%d", c.created)
	group := newGroup(namespace, name, 2)
	members := []*corev1.Pod{newPod(name+"-0", "low", name, "1", ""), newPod(name+"-1", "low", name, "1", "")}
	began := time.Now()
	for _, o := range []client.Object{group, members[0], members[1]} {
		if err := c.objects.Create(ctx, o); err != nil {
			return 0, 0, err
		}
	}
	onNodes := map[string]bool{}
	for placed == 0 || started == 0 {
		var e watch.Event
		var ok bool
		select {
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("wait for %s: %w", name, context.Cause(ctx))
		case e, ok = <-c.pods.ResultChan():
		case e, ok = <-c.groups.ResultChan():
		}
		if !ok {
			return 0, 0, fmt.Errorf("wait for %s: the watch has ended", name)
		}
		switch o := e.Object.(type) {
		case *corev1.Pod:
			if o.Labels[v1alpha1.LabelPodGroup] == name && o.Spec.NodeName != "" {
				onNodes[o.Name] = true
			}
		case *v1alpha1.PodGroup:
			if o.Name == name && o.Status.StartTime != nil && started == 0 {
				started = time.Since(began)
			}
		}
		if len(onNodes) == len(members) && placed == 0 {
			placed = time.Since(began)
		}
	}
	for _, o := range []client.Object{members[0], members[1], group} {
		if err := c.objects.Delete(ctx, o); err != nil {
			return 0, 0, err
		}
	}
	return placed, started, nil
}

// churnTable returns a table that compares each phase with the first phase.
func churnTable(phases []churnPhase) string {
	var out strings.Builder
	out.WriteString("The time of a gang of two beside a tenant that changes its own objects, from the creation of the gang.\nThe ratios compare with the first row.\n\n| Another namespace | Changes a second | All members have a node: p50 | p99 | Ratio of p99 | `startTime`: p50 | p99 | Ratio of p99 |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, p := range phases {
		fmt.Fprintf(&out, "| %s | %.0f", p.name, p.changes)
		for _, side := range []struct{ all, calm []time.Duration }{{p.placed, phases[0].placed}, {p.started, phases[0].started}} {
			most := percentile(side.all, 0.99).Seconds()
			fmt.Fprintf(&out, " | %.3f s | %.3f s | %.2f×", percentile(side.all, 0.5).Seconds(), most, most/percentile(side.calm, 0.99).Seconds())
		}
		out.WriteString(" |\n")
	}
	return out.String()
}
