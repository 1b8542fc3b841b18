package metrics

import (
	"errors"
	"fmt"
	"slices"

	k8smetrics "k8s.io/component-base/metrics"
)

// Type is the type of a metric in Prometheus.
type Type string

const (
	// Counter is a value that only grows.
	Counter Type = "counter"
	// Gauge is a value that grows and falls.
	Gauge Type = "gauge"
	// Histogram counts observations in buckets.
	Histogram Type = "histogram"
)

// Description describes a metric. `make generate` writes it as a row of docs/troubleshooting.md.
type Description struct {
	// Name is the name of the metric, without the prefix "reprieve_".
	Name string
	// Help describes the measured value. It is also the help text at /metrics.
	Help string
	// Advice says how to read the metric and when to act, in Markdown; "" for none. It appears only
	// in docs/troubleshooting.md.
	Advice string
	// Type is set by the methods of catalog that create the metric.
	Type   Type
	Labels []Label
}

// Label is a label of a metric.
type Label struct {
	Name string
	// values are all values of the label; nil if the process learns the values only while it runs.
	values []string
}

// profileLabel is the name of the label with the scheduler profile of the preemptor. Its values
// become known by [Metrics.Serves].
const profileLabel = "profile"

// closed returns a label whose values are all known in advance.
func closed[T ~string](name string, values ...T) Label {
	l := Label{Name: name}
	for _, v := range values {
		l.values = append(l.values, string(v))
	}
	return l
}

// open returns a label whose values the process learns while it runs.
func open(name string) Label { return Label{Name: name} }

// catalog creates and registers the metrics of a process. It also creates their series with the
// value 0, as far as the label values are known.
//
// The initial 0 matters because Prometheus sees no increase in a counter that appears with its
// first event. Without the 0, the first failure would trigger no alert, and the dashboard would
// miss the first events after a restart.
type catalog struct {
	entries []entry
}

// entry is a metric in a catalog.
type entry struct {
	Description
	metric k8smetrics.Registerable
	// begin creates the series with the given label values; nil for a metric without labels.
	begin func(values ...string)
}

func (c *catalog) counter(d Description) *k8smetrics.CounterVec {
	v := k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{Namespace: namespace, Name: d.Name, Help: d.Help, StabilityLevel: k8smetrics.ALPHA}, d.labelNames())
	c.add(d, Counter, v, func(values ...string) { v.WithLabelValues(values...) })
	return v
}

func (c *catalog) gauges(d Description) *k8smetrics.GaugeVec {
	v := k8smetrics.NewGaugeVec(&k8smetrics.GaugeOpts{Namespace: namespace, Name: d.Name, Help: d.Help, StabilityLevel: k8smetrics.ALPHA}, d.labelNames())
	c.add(d, Gauge, v, func(values ...string) { v.WithLabelValues(values...).Set(0) })
	return v
}

func (c *catalog) gauge(d Description) *k8smetrics.Gauge {
	g := k8smetrics.NewGauge(&k8smetrics.GaugeOpts{Namespace: namespace, Name: d.Name, Help: d.Help, StabilityLevel: k8smetrics.ALPHA})
	c.add(d, Gauge, g, nil)
	return g
}

func (c *catalog) histogram(d Description, buckets []float64) *k8smetrics.HistogramVec {
	v := k8smetrics.NewHistogramVec(&k8smetrics.HistogramOpts{
		Namespace: namespace, Name: d.Name, Help: d.Help, Buckets: buckets, StabilityLevel: k8smetrics.ALPHA,
	}, d.labelNames())
	c.add(d, Histogram, v, func(values ...string) { v.WithLabelValues(values...) })
	return v
}

func (c *catalog) add(d Description, t Type, metric k8smetrics.Registerable, begin func(...string)) {
	d.Type = t
	c.entries = append(c.entries, entry{Description: d, metric: metric, begin: begin})
}

func (d *Description) labelNames() []string {
	var names []string
	for _, l := range d.Labels {
		names = append(names, l.Name)
	}
	return names
}

func (d *Description) hasProfile() bool {
	return slices.Contains(d.labelNames(), profileLabel)
}

// register registers all metrics. If every registration succeeds, it creates the series without a
// profile.
func (c *catalog) register(register func(k8smetrics.Registerable) error) error {
	var errs []error
	for i := range c.entries {
		if err := register(c.entries[i].metric); err != nil {
			errs = append(errs, fmt.Errorf("register metric %s: %w", c.entries[i].metric.FQName(), err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for i := range c.entries {
		if e := &c.entries[i]; e.begin != nil && !e.hasProfile() {
			e.beginAll(e.Labels, "", nil)
		}
	}
	return nil
}

func (c *catalog) serve(profile string) {
	for i := range c.entries {
		if e := &c.entries[i]; e.begin != nil && e.hasProfile() {
			e.beginAll(e.Labels, profile, nil)
		}
	}
}

// beginAll creates one series for each combination of label values. chosen holds the values of the
// labels that come before the labels in left. If the values of a label are not known in advance, it
// creates no series.
func (e *entry) beginAll(left []Label, profile string, chosen []string) {
	if len(left) == 0 {
		e.begin(chosen...)
		return
	}
	values := left[0].values
	if left[0].Name == profileLabel {
		values = []string{profile}
	}
	for _, v := range values {
		e.beginAll(left[1:], profile, append(slices.Clone(chosen), v))
	}
}

// Descriptions returns the descriptions of all metrics, in the order of docs/troubleshooting.md.
func (m *Metrics) Descriptions() []Description {
	out := make([]Description, len(m.catalog.entries))
	for i := range m.catalog.entries {
		out[i] = m.catalog.entries[i].Description
	}
	return out
}
