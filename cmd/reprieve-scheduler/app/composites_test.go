package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// laterDiscovery serves PodGroups always, and CompositePodGroups only after the time in from.
type laterDiscovery struct {
	discovery.ServerResourcesInterface
	from time.Time
	err  error
}

func (d *laterDiscovery) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	list := &metav1.APIResourceList{APIResources: []metav1.APIResource{{Kind: "PodGroup"}}}
	if !time.Now().Before(d.from) {
		list.APIResources = append(list.APIResources, metav1.APIResource{Kind: "CompositePodGroup"})
	}
	return list, d.err
}

func TestWaitServed(t *testing.T) {
	failed := errors.New("failed")
	for name, tc := range map[string]struct {
		// after is the time until the kind is served, and stopped is the time until the scheduler
		// stops.
		after, stopped time.Duration
		err            error
		want           bool
		wantErr        error
		wantTime       time.Duration
	}{
		"served":             {want: true},
		"served soon":        {after: 5 * time.Second, want: true, wantTime: 5 * time.Second},
		"served much later":  {after: time.Minute, wantTime: newKindWait},
		"discovery fails":    {err: failed, wantErr: failed},
		"the scheduler ends": {after: time.Minute, stopped: time.Second, wantErr: context.DeadlineExceeded, wantTime: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx := t.Context()
				if tc.stopped > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.stopped)
					defer cancel()
				}
				discoverer := &laterDiscovery{from: start.Add(tc.after), err: tc.err}
				got, err := waitServed(ctx, discoverer, v1alpha1.SchemeGroupVersion.WithKind("CompositePodGroup"))
				if got != tc.want || !errors.Is(err, tc.wantErr) {
					t.Errorf("got %v, %v, want %v, %v", got, err, tc.want, tc.wantErr)
				}
				if took := time.Since(start); took != tc.wantTime {
					t.Errorf("it took %v, want %v", took, tc.wantTime)
				}
			})
		})
	}
}
