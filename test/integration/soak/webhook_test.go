package soak

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// schedulerUser is the user name of the schedulers. The webhook is called only for their requests
// to delete pods.
const schedulerUser = "system:serviceaccount:reprieve-system:reprieve-scheduler"

// longestDelay is the longest delay of a response by the webhook. It is shorter than the timeout of
// the webhook.
const longestDelay = 4 * time.Second

// refuseDeletes starts a webhook that rejects most requests of the scheduler to delete pods.
func refuseDeletes(s *soak, random *rand.Rand) (func() error, error) {
	most := chance(random, 80)
	return s.startWebhook(func() *metav1.Status {
		if most() {
			return &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "not now"}
		}
		return nil
	})
}

// delayDeletes starts a webhook that delays all requests of the scheduler to delete pods.
func delayDeletes(s *soak, random *rand.Rand) (func() error, error) {
	slow := chance(random, 50)
	return s.startWebhook(func() *metav1.Status {
		takes := longestDelay / 8
		if slow() {
			takes = longestDelay
		}
		<-time.After(takes)
		return nil
	})
}

// startWebhook registers a webhook for the schedulers' requests to delete pods. If decide returns a
// Status, the webhook rejects the request with this Status. The returned function removes the
// webhook.
func (s *soak) startWebhook(decide func() *metav1.Status) (func() error, error) {
	var over atomic.Bool
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		var refusal *metav1.Status
		if !over.Load() {
			refusal = decide()
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: refusal == nil, Result: refusal}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	// Ignore the log: the API server breaks its connections when it ends.
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	// Keep the server running until the end of the test, because the API server may call the
	// webhook for some time after its removal.
	s.Cleanup(server.Close)
	hook := webhookAt(server)
	if err := s.Objects.Create(s.Context(), hook); err != nil {
		return nil, fmt.Errorf("create the webhook: %w", err)
	}
	return func() error {
		over.Store(true)
		return client.IgnoreNotFound(s.Objects.Delete(s.Context(), hook))
	}, nil
}

func webhookAt(server *httptest.Server) *admissionregistrationv1.ValidatingWebhookConfiguration {
	url := server.URL + "/validate"
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "soak.reprieve.dev"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "deletes.soak.reprieve.dev",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{
				Name: "by-a-scheduler", Expression: fmt.Sprintf("request.userInfo.username == %q", schedulerUser),
			}},
			FailurePolicy: ptr.To(admissionregistrationv1.Fail), TimeoutSeconds: ptr.To[int32](10),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}
}
