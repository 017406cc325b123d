// Starts Swagger UI on the API's docs page. What is tried there goes out under the session's cookie,
// so requests carry the token that says they come from a page of ours.
const { document: address, formToken } = document.body.dataset;

window.SwaggerUIBundle({
  url: address,
  dom_id: "#api",
  deepLinking: true,
  // Without a look-up of the document elsewhere.
  validatorUrl: null,
  requestInterceptor: (request) => {
    if (!request.headers.Authorization) request.headers["X-Form-Token"] = formToken;
    return request;
  },
});
