import { expect, test } from "vitest";
import { command, members, operations, sample, typeText } from "./openapi";

const document = {
  paths: {
    "/orders/{id}": {
      parameters: [{ $ref: "#/components/parameters/id" }],
      post: {
        operationId: "place",
        requestBody: { required: true, content: { "application/json": { schema: { $ref: "#/components/schemas/Order" } } } },
        responses: { "201": { description: "placed" } },
      },
    },
  },
  components: {
    parameters: { id: { name: "id", in: "path", required: true, schema: { type: "integer", minimum: 7 } } },
    schemas: {
      Order: { type: "object", required: ["sku"], properties: { sku: { type: "string", maxLength: 9 }, next: { $ref: "#/components/schemas/Order" } } },
      Loop: { $ref: "#/components/schemas/Loop" },
    },
  },
};

test("operations inherit the parameters of their path, references are resolved", () => {
  const [place] = operations(document);
  expect(place).toMatchObject({ method: "POST", name: "place", parameters: [{ name: "id", where: "path" }], responses: [{ status: "201", description: "placed" }] });
});

test("schemas have short descriptions", () => {
  expect(typeText(document, { $ref: "#/components/schemas/Order" })).toBe("Order");
  expect(typeText(document, { type: "array", items: { type: "string", format: "date" }, minItems: 1 })).toBe("array of string (date), at least 1 items");
  expect(typeText(document, { type: ["integer", "null"], minimum: 1, maximum: 9 })).toBe("integer or null, 1 to 9");
  expect(typeText(document, { enum: ["a", 1] })).toBe('one of "a", 1');
  expect(members(document, { $ref: "#/components/schemas/Order" })).toMatchObject([{ name: "sku", required: true }, { name: "next", required: false }]);
});

test("recursive schemas terminate", () => {
  expect(members(document, { $ref: "#/components/schemas/Loop" })).toEqual([]);
  expect(JSON.stringify(sample(document, { $ref: "#/components/schemas/Order" })).length).toBeLessThan(1000);
});

test("an initial request, safe to be pasted", () => {
  const place = operations(document)[0];
  if (!place) throw new Error("no operation");
  const body = { ...place, body: { description: "", required: true, types: [{ type: "application/json", schema: {}, example: { sku: "it's" } }] } };
  expect(command(document, "http://a/shop", body)).toBe(`curl -X POST -H 'content-type: application/json' -d '{\n  "sku": "it'\\''s"\n}' 'http://a/shop/orders/7'`);
});
